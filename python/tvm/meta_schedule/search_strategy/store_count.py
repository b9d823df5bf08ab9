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
"""How many stores a module executes, which tells good schedules before anything is measured."""

import math

from tvm.runtime import DataType
from tvm.tir.stmt import ForKind

# Statements that hold one other, and where.
_INNER = {
    "AttrStmt": "body",
    "Block": "body",
    "BlockRealize": "block",
    "For": "body",
    "LetStmt": "body",
    "SBlock": "body",
    "SBlockRealize": "block",
}


def count_stores(mod, vector_bytes=64):
    """The number of stores that a module executes on a CPU, without initializations of reductions.

    It says little about which of two good schedules is better, but it tells those that vectorize
    well and repeat no work from the many of a random sample that do not.

    Parameters
    ----------
    mod : tvm.IRModule
        The module, with scheduled loops.
    vector_bytes : int = 64
        The width of vector units in bytes. A vector counts once for each of them that it fills.

    Returns
    -------
    count : float
        The number.
    """
    return sum(
        _count(func.body, 1.0, 1, vector_bytes)
        for func in mod.functions.values()
        if hasattr(func, "body")
    )


def _count(stmt, iterations, length, vector_bytes):
    """The stores of a statement that is executed so many times, for vectors of that length."""
    kind = type(stmt).__name__
    if kind == "For":
        extent = int(getattr(stmt.extent, "value", 1))  # 1 if it is not known
        if stmt.kind == ForKind.VECTORIZED:
            length *= extent
        else:
            iterations *= extent
    if kind in _INNER:
        return _count(getattr(stmt, _INNER[kind]), iterations, length, vector_bytes)
    if kind == "SeqStmt":
        return sum(_count(part, iterations, length, vector_bytes) for part in stmt.seq)
    if kind == "IfThenElse":
        return _count(stmt.then_case, iterations, length, vector_bytes)
    if kind == "BufferStore":
        num_bytes = length * DataType(str(stmt.buffer.dtype)).bits / 8
        return iterations * math.ceil(num_bytes / vector_bytes)
    # A call may be that of a tensor intrinsic.
    return iterations if kind == "Evaluate" else 0.0
