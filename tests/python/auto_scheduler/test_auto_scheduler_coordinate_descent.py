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
"""Test the coordinate descent engine on cost functions whose optimum is known."""

import collections
import itertools
import math
import random
import re

import numpy as np
import pytest
import scipy.stats

import tvm.testing
from tvm.auto_scheduler import _ffi_api
from tvm.auto_scheduler.coordinate_descent import CoordinateDescent

FAILED = None


def axes(num_coordinates):
    """One step up and one down on each coordinate."""
    return [[(i, delta)] for i in range(num_coordinates) for delta in (1, -1)]


def exchanges(*block):
    """One unit from any coordinate of the block to any other, as between the levels of a split."""
    return [[(i, -1), (j, 1)] for i, j in itertools.permutations(block, 2)]


class Descent:
    """A descent on a cost function that checks what has to hold for every descent.

    Parameters
    ----------
    cost : Callable[..., Optional[float]]
        The cost at the coordinates of a point, FAILED where a measurement fails.
    repeat : int
        The number of samples that a measurement gives.
    noise : float
        The standard deviation of the logarithm of a sample.
    given : Optional[List[float]]
        The samples that the start is given with, by default those of a measurement.
    """

    def __init__(
        self,
        cost,
        upper,
        directions,
        start,
        repeat=1,
        noise=0.0,
        seed=0,
        radius=1,
        given=None,
        **options,
    ):
        self.cost, self.repeat, self.noise = cost, repeat, noise
        self.upper, self.directions, self.radius = upper, directions, radius
        self.random = np.random.default_rng(seed)
        self.start = tuple(start)
        self.outstanding = []
        self.given = given or self.measure(start)
        self.samples = collections.defaultdict(list, {self.start: [self.given]})
        self.engine = CoordinateDescent(
            upper, directions, start, self.given, radius, seed=seed, **options
        )

    def measure(self, point):
        cost = self.cost(*point)
        if cost is FAILED:
            return []
        return (cost * np.exp(self.noise * self.random.standard_normal(self.repeat))).tolist()

    @property
    def trials(self):
        return sum(len(outcomes) for outcomes in self.samples.values()) - 1

    @property
    def true_cost(self):
        return self.cost(*self.engine.best)

    def ask(self, batch_size):
        batch = [tuple(point) for point in self.engine.ask(batch_size)]
        assert len(batch) <= batch_size
        assert len(set(batch) | set(self.outstanding)) == len(batch) + len(self.outstanding)
        if batch and self.trials == 0 and not self.outstanding:
            # A start with a single sample is measured again before anything else.
            assert (batch[0] == self.start) == (len(self.given) == 1)
        for point in batch:
            assert self.contains(point)
            # Measured before: once, and only if that gave one sample.
            assert [len(samples) for samples in self.samples.get(point, [])] in ([], [1])
        self.outstanding += batch
        return batch

    def tell(self, point):
        self.outstanding.remove(point)
        self.samples[point].append(self.measure(point))
        self.engine.tell(point, self.samples[point][-1])
        best = tuple(self.engine.best)
        outcomes = self.samples[best]
        if best == self.start and len(self.given) == 1:
            outcomes = outcomes[-1:]  # The new sample takes the place of the given one.
        samples = sum(outcomes, [])
        assert best == self.start or len(samples) >= 2
        assert self.engine.best_cost == pytest.approx(np.mean(samples))

    def run(self, batch_size=4, budget=10_000):
        while self.trials < budget:
            batch = self.ask(min(batch_size, budget - self.trials))
            assert self.engine.converged == (not batch)
            if not batch:
                self.check_converged()
                break
            for point in batch:
                self.tell(point)
        return self

    def contains(self, point):
        return all(0 <= value <= upper for value, upper in zip(point, self.upper))

    def neighbors(self, point):
        """The points within the radius."""
        for direction, steps in itertools.product(self.directions, range(1, self.radius + 1)):
            neighbor = list(point)
            for i, delta in direction:
                neighbor[i] += delta * steps
            if self.contains(neighbor):
                yield tuple(neighbor)

    def check_converged(self):
        assert self.engine.converged
        assert self.ask(1) == []
        assert all(point in self.samples for point in self.neighbors(self.engine.best))


def convex(x, y, z):
    return 1 + (x - 7) ** 2 + (y - 2) ** 2 + (z - 5) ** 2


def coupled(x, y):
    """Long and narrow, but not so narrow that single steps stop short of the optimum."""
    return 1 + (x - y) ** 2 + 0.5 * (x + y - 24) ** 2


def split(outer, middle, inner):
    return 1 + abs(outer - 3) + 4 * abs(middle - 5) + abs(inner - 1)


def two_splits(i_outer, i_inner, j_outer, j_inner, unroll):
    """Tiles of 2^12 by 2^12, best at 2^4 by 2^8, with more to lose if both are large."""
    tile = max(0, i_inner + j_inner - 12)
    return 1 + abs(i_inner - 4) + abs(j_outer - 4) + 3 * tile + abs(unroll - 2)


def plateaus(x, y):
    """Steps three wide: nothing changes within the radius of one."""
    return 30 - x // 3 - 2 * (y // 3)


def behind_wall(x, y):
    return FAILED if (x - 5) ** 2 + (y - 5) ** 2 <= 9 else 1 + (x - 9) ** 2 + (y - 9) ** 2


def behind_thick_wall(x, y):
    return FAILED if 3 <= x <= 5 else 1 + (x - 9) ** 2 + (y - 9) ** 2


def half_failing(x, y, z):
    """Every other point fails, and with it all single steps on x and y."""
    return FAILED if (x + y) % 2 else convex(x, y, z)


SPLITS = exchanges(0, 1) + exchanges(2, 3) + [[(4, 1)], [(4, -1)]]

LANDSCAPES = {
    # The cost, upper values, directions, start, optimum and radius.
    "convex": (convex, [9, 9, 9], axes(3), [0, 9, 0], (7, 2, 5), 1),
    "coupled": (coupled, [20, 20], axes(2), [0, 0], (12, 12), 1),
    "split": (split, [9, 9, 9], exchanges(0, 1, 2), [9, 0, 0], (3, 5, 1), 1),
    "two_splits": (two_splits, [12] * 4 + [3], SPLITS, [12, 0, 12, 0, 0], (8, 4, 4, 8, 2), 1),
    "plateaus": (plateaus, [9, 9], axes(2), [0, 0], (9, 9), 3),
    "behind_wall": (behind_wall, [12, 12], axes(2), [1, 1], (9, 9), 1),
    "behind_thick_wall": (behind_thick_wall, [12, 12], axes(2), [1, 1], (9, 9), 1),
    "half_failing": (half_failing, [9] * 3, axes(3), [0, 0, 0], (7, 3, 5), 2),
    "all_else_fails": (lambda x: FAILED if x else 1.0, [9], axes(1), [0], (0,), 9),
}


@pytest.mark.parametrize("repeat", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 4, 16])
@pytest.mark.parametrize("name", LANDSCAPES)
def test_known_optimum(name, batch_size, repeat):
    cost, upper, directions, start, optimum, radius = LANDSCAPES[name]
    descent = Descent(cost, upper, directions, start, repeat=repeat, radius=radius).run(batch_size)
    assert descent.true_cost == cost(*optimum)
    # Nothing near an exhaustive search of the hundreds of points.
    assert descent.trials <= 150


@pytest.mark.parametrize("batch_size", [1, 4, 16])
def test_drift_since_the_start(batch_size):
    """Everything costs three times what it did when the start was measured."""
    given = [convex(0, 9, 0) / 3]
    descent = Descent(convex, [9, 9, 9], axes(3), [0, 9, 0], given=given).run(batch_size)
    assert (descent.engine.best, descent.engine.best_cost) == ([7, 2, 5], 1)
    assert descent.trials <= 150


@pytest.mark.parametrize("repeat", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 4, 16])
def test_pairs_follow_a_valley(batch_size, repeat):
    """Every single step costs, only two together pay."""

    def valley(x, y):
        return 1 + 100 * (x - y) ** 2 + (x - 20) ** 2

    descent = Descent(valley, [31, 31], axes(2), [0, 0], repeat=repeat).run(batch_size)
    assert descent.engine.best == [20, 20]
    assert descent.trials <= 150


@pytest.mark.parametrize("repeat", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_few_combinations_precede_convergence(batch_size, repeat):
    """No step helps, so some combinations are tried, the most promising ones first."""
    effects = [1.01, 1.02, 1.04, 1.4, 1.6, 1.8, 2.0]
    descent = Descent(
        lambda *point: 2.5 if sum(point) > 1 else math.prod(e**x for e, x in zip(effects, point)),
        [1] * 7,
        axes(7),
        [0] * 7,
        repeat=repeat,
    ).run(batch_size)
    assert descent.engine.best == [0] * 7
    combinations = [point for point in descent.samples if sum(point) > 1]
    assert 16 <= len(combinations) < 16 + 2 * batch_size
    assert {(1, 1) + (0,) * 5, (1, 0, 1) + (0,) * 4} <= set(combinations)


@pytest.mark.parametrize("seed", range(5))
def test_steps_that_paid_are_combined(seed):
    effects = [0.5, 0.6, 2.0, 1.5, 1.8]
    descent = Descent(
        lambda *point: math.prod(e**x for e, x in zip(effects, point)),
        [1] * 5,
        axes(5),
        [0] * 5,
        repeat=2,
        seed=seed,
    )
    for point in descent.ask(5):
        descent.tell(point)
    assert descent.ask(1) == [(1, 1, 0, 0, 0)]


def test_fewer_trials_than_in_random_order():
    """What was told orders what is tried."""
    effects = [1.05**exponent for exponent in (-1, 2, -4, 8, -16, 3, -6, 5)]
    directions = axes(8)
    random = np.random.default_rng(0)

    def trials_of_engine(seed):
        engine = CoordinateDescent([9] * 8, directions, [4] * 8, [1.0] * 2, seed=seed)
        trials = 0
        while engine.best_cost >= 0.2:
            (point,) = engine.ask(1)
            engine.tell(point, [math.prod(e ** (x - 4) for e, x in zip(effects, point))] * 2)
            trials += 1
        return trials

    def trials_of_random_order():
        """Take each step that pays."""
        point, cost, trials = [4] * 8, 1.0, 0
        while cost >= 0.2:
            ((i, delta),) = directions[random.integers(16)]
            trials += 1
            if 0 <= point[i] + delta <= 9 and effects[i] ** delta < 1:
                point[i] += delta
                cost *= effects[i] ** delta
        return trials

    assert np.median([trials_of_engine(seed) for seed in range(9)]) < np.median(
        [trials_of_random_order() for _ in range(99)]
    )


@pytest.mark.parametrize("seed", range(5))
def test_prior_orders_what_was_not_measured(seed):
    target = np.array([7, 2, 5])

    def prior(points):
        return [float(np.abs(np.subtract(point, target)).sum()) for point in points]

    engine = CoordinateDescent([9] * 3, axes(3), [4, 4, 4], [1.0] * 2, seed=seed, prior=prior)
    batch = engine.ask(6)
    assert sorted(batch[:3]) == [[4, 3, 4], [4, 4, 5], [5, 4, 4]]


def test_prior_excludes_points():
    """What the prior calls impossible is never proposed, and does not keep the descent going."""
    asked = []

    def prior(points):
        asked.extend(map(tuple, points))
        return [math.inf if point[1] > 3 else 0.0 for point in points]

    descent = Descent(lambda x, y: 20 - x - y, [5, 9], axes(2), [0, 0], repeat=2, prior=prior)
    while batch := descent.ask(4):
        assert all(y <= 3 for _, y in batch)
        for point in batch:
            descent.tell(point)
    assert descent.engine.converged
    assert descent.engine.best == [5, 3]
    assert len(asked) == len(set(asked))  # nothing is asked twice


def test_prior_must_answer():
    engine = CoordinateDescent([9], axes(1), [4], [1.0], prior=lambda points: [0.0])
    with pytest.raises(ValueError, match="2 points.* gave 1"):
        engine.ask(4)


@pytest.mark.parametrize("again, accepted", [([0.5], True), ([1.6], False), ([], False)])
def test_single_sample_is_confirmed(again, accepted):
    engine = CoordinateDescent([2], axes(1), [1], [0.9])
    first, *neighbors = engine.ask(4)
    assert (first, sorted(neighbors)) == ([1], [[0], [2]])
    engine.tell([2], [0.5])
    engine.tell([0], [1.5])
    assert engine.best == [1]
    assert engine.ask(4) == [[2]]
    assert engine.ask(4) == []  # while both are outstanding
    engine.tell([2], again)
    assert engine.best == [1]  # the incumbent's own second measurement is still to come
    engine.tell([1], [1.0])
    assert (engine.best, engine.best_cost) == (([2], 0.5) if accepted else ([1], 1.0))
    assert engine.ask(4) == []
    assert engine.converged


def test_gain_below_margin_is_not_accepted():
    for margin, best in [(0.01, [0]), (0.0, [1])]:
        descent = Descent(lambda x: 1 - 0.009 * x, [1], axes(1), [0], margin=margin).run()
        assert descent.engine.best == best


@pytest.mark.parametrize("start_first", [True, False])
def test_lucky_start_is_corrected(start_first):
    """The start's only sample is 20 % too low: even its mean with a true one hides the gain."""
    descent = Descent(lambda x: [1.0, 0.93, 0.75][x], [2], axes(1), [0], given=[0.8])
    batch = descent.ask(2)
    assert batch == [(0,), (1,)]
    for point in batch if start_first else reversed(batch):
        descent.tell(point)
    assert (descent.engine.best, descent.engine.best_cost) == ([0], 1.0)
    assert not descent.engine.converged
    assert descent.run().engine.best == [2]


def test_several_samples_replace_a_single_one():
    """As when the start comes from a log of measurements that were repeated less often."""
    engine = CoordinateDescent([1], axes(1), [0], [0.5])
    assert engine.ask(1) == [[0]]
    engine.tell([0], [0.99, 1.00, 1.01])
    assert engine.best_cost == pytest.approx(1.00)
    assert engine.ask(1) == [[1]]
    engine.tell([1], [0.5])
    assert engine.ask(1) == [[1]]
    engine.tell([1], [0.90, 0.91, 0.92])
    assert (engine.best, engine.best_cost) == ([1], pytest.approx(0.91))
    assert engine.converged


def test_failed_confirmation_keeps_the_incumbent():
    engine = CoordinateDescent([1], axes(1), [0], [1.0])
    assert engine.ask(1) == [[0]]
    engine.tell([0], [])
    assert not engine.converged
    assert engine.ask(1) == [[1]]
    engine.tell([1], [1.5])
    assert (engine.best, engine.best_cost) == ([0], 1.0)
    assert engine.converged


@pytest.mark.parametrize(
    "samples, accepted",
    [
        ([0.60, 0.62, 0.61], True),
        ([0.993, 0.994, 0.995], True),  # less than the margin, but significant
        ([0.40, 0.90, 1.40], False),  # far more than the margin, but not significant
        ([1.40, 1.41, 1.42], False),
        ([], False),
    ],
)
def test_several_samples_are_tested(samples, accepted):
    engine = CoordinateDescent([1], axes(1), [0], [0.999, 1.0, 1.001])
    assert engine.ask(4) == [[1]]
    engine.tell([1], samples)
    assert engine.best == ([1] if accepted else [0])
    assert engine.converged


def test_p_value_decides():
    samples, start = [0.9, 1.0, 0.95], [1.0, 1.1, 1.02]
    p_value = scipy.stats.ttest_ind(samples, start, equal_var=False, alternative="less").pvalue
    for level, best in [(p_value * 1.01, [1]), (p_value * 0.99, [0])]:
        engine = CoordinateDescent([1], axes(1), [0], start, p_value=level)
        engine.tell(engine.ask(1)[0], samples)
        assert engine.best == best


@pytest.mark.parametrize("repeat", [1, 3, 10])
def test_noise(repeat):
    """Noise below the effect of a step does not keep the descent from the optimum."""

    def cost(x, y, z):
        return 1.15 ** (abs(x - 7) + abs(y - 2) + abs(z - 5))

    descents = [
        Descent(cost, [9, 9, 9], axes(3), [0, 9, 0], repeat=repeat, noise=0.03, seed=seed).run()
        for seed in range(20)
    ]
    at_optimum = sum(descent.engine.best == [7, 2, 5] for descent in descents)
    # The test's power is below one with three samples.
    assert at_optimum >= (20 if repeat != 3 else 16)
    assert max(descent.trials for descent in descents) <= 80


@pytest.mark.parametrize("repeat", [1, 3])
def test_noise_at_the_optimum(repeat):
    """Where every step costs less than the noise, luck must not lead the descent away."""
    losses = [
        Descent(
            lambda *point: 1 + 0.02 * sum(point),
            [9] * 6,
            axes(6),
            [0] * 6,
            repeat=repeat,
            noise=0.03,
            seed=seed,
        )
        .run()
        .true_cost
        - 1
        for seed in range(40)
    ]
    assert np.mean(losses) <= 0.02


@pytest.mark.parametrize(
    "radius, barrier, best",
    [
        (1, 9.0, [2]),
        (2, 9.0, [2]),
        (3, 9.0, [9]),
        (1, FAILED, [2]),  # with two outcomes, nothing beyond the neighbors is tried
        (2, FAILED, [9]),
        (3, FAILED, [9]),
    ],
)
def test_crosses_what_is_narrower_than_the_radius_or_fails(radius, barrier, best):
    descent = Descent(
        lambda x: barrier if x in (3, 4) else 10.0 - x, [9], axes(1), [2], radius=radius
    )
    assert descent.run().engine.best == best


@pytest.mark.parametrize(
    "upper, directions, start",
    [([], [], []), ([5], [], [2]), ([0, 0], axes(2), [0, 0]), ([3], [[(0, 4)]], [0])],
)
def test_nothing_to_try(upper, directions, start):
    for samples in ([1.0], [1.0, 1.1]):
        engine = CoordinateDescent(upper, directions, start, samples)
        assert engine.converged
        assert engine.ask(8) == []
        assert engine.best == start


def test_asks_of_nothing():
    engine = CoordinateDescent([5], axes(1), [2], [1.0])
    assert engine.ask(0) == []
    assert not engine.converged
    assert len(engine.ask(1)) == 1


@pytest.mark.parametrize("repeat", [1, 3])
def test_asynchronous_measurements(repeat):
    """Points are asked for while others are outstanding, and outcomes come in any order."""
    rng = random.Random(0)
    for seed in range(10):
        descent = Descent(convex, [9, 9, 9], axes(3), [0, 9, 0], repeat=repeat, seed=seed)
        while not descent.engine.converged:
            descent.ask(rng.randint(0, 6 - min(6, len(descent.outstanding))))
            if descent.outstanding:
                assert not descent.engine.converged
                descent.tell(rng.choice(descent.outstanding))
        descent.check_converged()
        assert descent.engine.best == [7, 2, 5]


def test_seed_decides():
    def trace(seed):
        descent = Descent(convex, [9, 9, 9], axes(3), [4, 4, 4], noise=0.03)
        descent.engine = CoordinateDescent(
            [9, 9, 9], axes(3), [4, 4, 4], descent.samples[(4, 4, 4)][0], seed=seed
        )
        return list(descent.run(3).samples)

    assert trace(7) == trace(7)
    assert len({tuple(trace(seed)[:4]) for seed in range(10)}) > 5


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"upper": [-3]}, "-3"),
        ({"upper": [2**40]}, str(2**40)),
        ({"upper": [2**31 - 1]}, str(2**31 - 1)),
        ({"directions": [[(2**32, 1)]]}, str(2**32)),
        ({"directions": [[(0, 2**32)]]}, str(2**32)),
        ({"directions": [[(77, 1)]]}, "77"),
        ({"directions": [[(-77, 1)]]}, "-77"),
        ({"directions": [[(0, 0)]]}, "direction"),
        ({"directions": [[]]}, "direction"),
        ({"directions": [[(0, 1, 2)]]}, "direction.* 3 values"),
        ({"start": [77]}, "start.*77"),
        ({"start": [-77]}, "start.*-77"),
        ({"start": []}, "start"),
        ({"start": [1, 77]}, "start.*77"),
        ({"start_costs": []}, "cost"),
        ({"start_costs": [math.nan]}, "cost.*nan"),
        ({"start_costs": [1.0, math.inf]}, "cost.*inf"),
        ({"radius": 0}, "radius.* 0"),
        ({"radius": -77}, "radius.* -77"),
        ({"p_value": 0.0}, "p_value.* 0"),
        ({"p_value": 1.0}, "p_value.* 1"),
        ({"p_value": math.nan}, "p_value.* nan"),
        ({"margin": -0.25}, "margin.* -0.25"),
        ({"margin": -1e-9}, "margin.* -1e-0?9"),
        ({"margin": 1.0}, "margin.* 1"),
        ({"margin": math.nan}, "margin.* nan"),
    ],
)
def test_bad_arguments(changes, message):
    arguments = {"upper": [5], "directions": axes(1), "start": [1], "start_costs": [1.0]}
    CoordinateDescent(**arguments)
    with pytest.raises(ValueError, match=message):
        CoordinateDescent(**{**arguments, **changes})


@pytest.mark.parametrize("repeat", [1, 2])
def test_withdrawn_points_are_asked_again(repeat):
    engine = CoordinateDescent([2, 2], axes(2), [1, 1], [1.0] * repeat)
    asked = engine.ask(8)
    assert len(asked) >= 4 and not engine.ask(8) and not engine.converged
    engine.withdraw()
    assert engine.ask(8) == asked
    engine.withdraw()
    with pytest.raises(ValueError, match="not waiting"):
        engine.tell(asked[0], [1.0])


def test_costs_of_zero():
    """The minimum is found where ratios of costs tell nothing."""
    descent = Descent(
        lambda x, y: max(abs(x - 2), abs(y - 2)) - 1, [4, 4], axes(2), [4, 4], repeat=2
    ).run(4)
    assert descent.engine.converged
    assert descent.engine.best_cost == -1


def test_bad_calls():
    engine = CoordinateDescent([5], axes(1), [1], [1.0])
    with pytest.raises(ValueError, match="batch_size.* -77"):
        engine.ask(-77)
    for point in [[77], [2], [2, 77], []]:  # none of them was proposed
        with pytest.raises(ValueError, match=re.escape(str(point))):
            engine.tell(point, [1.0])
    (point,) = engine.ask(1)
    engine.tell(point, [1.0])
    with pytest.raises(ValueError, match=re.escape(str(point))):
        engine.tell(point, [1.0])
    assert engine.best == [1]


def check_against_scipy(lower, higher):
    with np.errstate(all="ignore"):
        expected = scipy.stats.ttest_ind(lower, higher, equal_var=False, alternative="less").pvalue
    actual = _ffi_api.WelchPValue(lower, higher)
    assert actual == pytest.approx(expected, rel=1e-6, abs=1e-12)


@pytest.mark.filterwarnings("ignore:Precision loss")
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e10])
@pytest.mark.parametrize("gap", [-3.0, -0.5, 0.0, 0.02, 2.0, 30.0])
@pytest.mark.parametrize("deviations", [(1.0, 1.0), (0.1, 3.0), (1e-6, 1e-6), (0.0, 1.0)])
def test_welch_p_value(deviations, gap, scale):
    rng = np.random.default_rng(0)
    for sizes in [(2, 2), (2, 50), (3, 3), (5, 4), (50, 2), (50, 50)]:
        lower, higher = (
            rng.normal(mean, deviation, size)
            for mean, deviation, size in zip((100, 100 + gap), deviations, sizes)
        )
        check_against_scipy((lower * scale).tolist(), (higher * scale).tolist())


def test_welch_p_value_without_variance():
    for lower, higher, expected in [(1.0, 2.0, 0.0), (2.0, 1.0, 1.0), (1.0, 1.0, 0.5)]:
        assert _ffi_api.WelchPValue([lower] * 3, [higher] * 2) == expected
    # Here the variances vanish when they are squared.
    assert _ffi_api.WelchPValue([1e-90, 2e-90], [8e-90, 9e-90]) == pytest.approx(
        _ffi_api.WelchPValue([1.0, 2.0], [8.0, 9.0])
    )


@pytest.mark.parametrize("lower, higher", [([1.0], [1.0, 2.0]), ([1.0, 2.0], []), ([], [])])
def test_welch_p_value_needs_samples(lower, higher):
    with pytest.raises(ValueError, match=f"{len(lower)} and {len(higher)}"):
        _ffi_api.WelchPValue(lower, higher)


@pytest.mark.filterwarnings("ignore:Precision loss")
def test_welch_p_value_of_any_samples():
    hypothesis = pytest.importorskip("hypothesis")
    st = pytest.importorskip("hypothesis.strategies")
    # Multiples of a thousandth, so that a variance is either zero or no rounding error.
    sample = st.lists(st.integers(1, 10**6).map(lambda n: n / 1000), min_size=2, max_size=50)

    @hypothesis.settings(max_examples=50, deadline=None, derandomize=True)
    @hypothesis.given(sample, sample)
    def check(lower, higher):
        hypothesis.assume(len(set(lower)) > 1 or len(set(higher)) > 1)
        check_against_scipy(lower, higher)

    check()


def test_any_space():
    """The checks of `Descent` hold, and what it converges to is a local minimum."""
    hypothesis = pytest.importorskip("hypothesis")
    st = pytest.importorskip("hypothesis.strategies")

    @st.composite
    def spaces(draw):
        upper = draw(st.lists(st.integers(0, 6), min_size=0, max_size=4))
        start = [draw(st.integers(0, value)) for value in upper]
        if not upper:
            return upper, [], start
        change = st.tuples(st.integers(0, len(upper) - 1), st.sampled_from([-3, -2, -1, 1, 2, 3]))
        direction = st.lists(change, min_size=1, max_size=3, unique_by=lambda pair: pair[0])
        return upper, draw(st.lists(direction, max_size=8)), start

    @hypothesis.settings(max_examples=300, deadline=None, derandomize=True)
    @hypothesis.given(
        space=spaces(),
        costs=st.randoms(use_true_random=False),
        failing=st.sampled_from([0.0, 0.3, 0.9]),
        noise=st.sampled_from([0.0, 0.1]),
        repeat=st.integers(1, 3),
        radius=st.integers(1, 3),
        batch_size=st.integers(1, 9),
        budget=st.integers(0, 60) | st.just(10_000),
        seed=st.integers(0, 9),
        drift=st.sampled_from([1.0, 3.0]),
    )
    def check(space, costs, failing, noise, repeat, radius, batch_size, budget, seed, drift):
        upper, directions, start = space
        table = {tuple(start): 2.0}

        def cost(*point):
            if point not in table:
                table[point] = FAILED if costs.random() < failing else costs.uniform(1, 3)
            return table[point]

        # Several samples of the start are taken as they are, a single one is replaced.
        given = [2.0 / drift] if repeat == 1 else None
        descent = Descent(
            cost, upper, directions, start, repeat, noise, seed, radius, given, margin=0.01
        ).run(batch_size, budget)
        assert descent.trials <= budget
        if descent.engine.converged and noise == 0:
            lowest = descent.true_cost * (0.99 if repeat == 1 else 1)
            for neighbor in descent.neighbors(descent.engine.best):
                assert table[neighbor] is FAILED or table[neighbor] >= lowest

    check()


if __name__ == "__main__":
    tvm.testing.main()
