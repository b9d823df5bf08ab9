# Licensed to the Apache Software Foundation (ASF) under one
# or more contributor license agreements.  See the NOTICE file
# distributed with this work for additional information
# regarding copyright ownership.  The ASF licenses this file
# to you under the Apache License, Version 2.0 (the
# "License"); you may not use this file except in compliance
# with the License.  You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing,
# software distributed under the License is distributed on an
# "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY
# KIND, either express or implied.  See the License for the
# specific language governing permissions and limitations
# under the License.
"""The processes that build and run candidates.

TVM starts new ones for every batch, and each of them imports TVM first. On two cores, a batch is
four candidates, and the processes take longer to start than to build and run those. That would hide
what searches differ in, and favor those with large batches.
"""

import functools

from tvm.auto_scheduler import measure


def keep_workers():
    """Let the processes live on from batch to batch, for the rest of this process.

    One that hangs or dies is replaced as before. Workloads must not change their meaning, since the
    processes remember them.
    """
    for name in ("PopenPoolExecutor", "PopenWorker"):
        setattr(measure, name, functools.cache(getattr(measure, name)))
