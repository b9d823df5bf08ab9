/*
 * Licensed to the Apache Software Foundation (ASF) under one
 * or more contributor license agreements.  See the NOTICE file
 * distributed with this work for additional information
 * regarding copyright ownership.  The ASF licenses this file
 * to you under the Apache License, Version 2.0 (the
 * "License"); you may not use this file except in compliance
 * with the License.  You may obtain a copy of the License at
 *
 *   http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing,
 * software distributed under the License is distributed on an
 * "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY
 * KIND, either express or implied.  See the License for the
 * specific language governing permissions and limitations
 * under the License.
 */

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../../src/auto_scheduler/search_policy/coordinate_descent.h"
#include "../../src/auto_scheduler/search_policy/welch_t_test.h"

namespace tvm {
namespace auto_scheduler {
namespace {

using Samples = std::vector<double>;
using Points = std::vector<Point>;

/*! \brief A space with one step up and one down on each coordinate. */
CoordinateSpace Axes(const Point& upper) {
  CoordinateSpace space{upper, {}};
  for (size_t i = 0; i < upper.size(); ++i) {
    for (int delta : {1, -1}) {
      space.directions.push_back({{static_cast<int>(i), delta}});
    }
  }
  return space;
}

/*! \brief A space where one unit goes from any coordinate to any other, as in a split. */
CoordinateSpace Exchanges(const Point& upper) {
  CoordinateSpace space{upper, {}};
  for (int from = 0; from < static_cast<int>(upper.size()); ++from) {
    for (int to = 0; to < static_cast<int>(upper.size()); ++to) {
      if (from != to) {
        space.directions.push_back({{from, -1}, {to, 1}});
      }
    }
  }
  return space;
}

/*!
 * \brief Measure what the descent asks for until it has converged.
 * \return The number of measurements.
 */
template <typename Cost>
int Converge(CoordinateDescent* descent, size_t batch_size, const CoordinateSpace& space,
             Cost cost) {
  std::map<Point, int> measurements;
  int trials = 0;
  for (Points batch = descent->Ask(batch_size); !batch.empty(); batch = descent->Ask(batch_size)) {
    EXPECT_FALSE(descent->Converged());
    EXPECT_LE(batch.size(), batch_size);
    for (const Point& point : batch) {
      EXPECT_TRUE(space.Contains(point));
      EXPECT_LE(++measurements[point], 2);
      descent->Tell(point, cost(point));
      ++trials;
    }
  }
  EXPECT_TRUE(descent->Converged());
  return trials;
}

Points Sorted(Points points) {
  std::sort(points.begin(), points.end());
  return points;
}

/*! \brief The message with which the call refuses its arguments. */
template <typename Call>
std::string Refusal(Call call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(CoordinateDescent, FindsOptimumOfConvexCost) {
  const CoordinateSpace space = Axes({9, 9, 9});
  for (size_t batch_size : {1, 4, 16}) {
    for (size_t repeat : {1, 3}) {
      auto cost = [&](const Point& x) {
        return Samples(repeat,
                       1 + std::pow(x[0] - 7, 2) + std::pow(x[1] - 2, 2) + std::pow(x[2] - 5, 2));
      };
      CoordinateDescent descent(space, {0, 9, 0}, cost({0, 9, 0}));
      EXPECT_LE(Converge(&descent, batch_size, space, cost), 150);
      EXPECT_EQ(descent.best(), Point({7, 2, 5}));
      EXPECT_EQ(descent.best_cost(), 1);
    }
  }
}

TEST(CoordinateDescent, FollowsTheRidgeOfASplit) {
  const CoordinateSpace space = Exchanges({9, 9, 9});
  for (size_t batch_size : {1, 4, 16}) {
    auto cost = [](const Point& x) {
      EXPECT_EQ(x[0] + x[1] + x[2], 9);
      return Samples{1.0 + std::abs(x[0] - 3) + 4 * std::abs(x[1] - 5)};
    };
    CoordinateDescent descent(space, {9, 0, 0}, cost({9, 0, 0}));
    EXPECT_LE(Converge(&descent, batch_size, space, cost), 40);
    EXPECT_EQ(descent.best(), Point({3, 5, 1}));
  }
}

TEST(CoordinateDescent, GoesAroundFailures) {
  const CoordinateSpace space = Axes({12, 12});
  auto cost = [](const Point& x) {
    const bool fails = std::pow(x[0] - 5, 2) + std::pow(x[1] - 5, 2) <= 9;
    return fails ? Samples{} : Samples{1 + std::pow(x[0] - 9, 2) + std::pow(x[1] - 9, 2)};
  };
  for (size_t batch_size : {1, 4, 16}) {
    CoordinateDescent descent(space, {1, 1}, cost({1, 1}));
    Converge(&descent, batch_size, space, cost);
    EXPECT_EQ(descent.best(), Point({9, 9}));
  }
}

TEST(CoordinateDescent, CrossesPlateausWithinTheRadius) {
  const CoordinateSpace space = Axes({9});
  auto cost = [](const Point& x) { return Samples{4.0 - x[0] / 3}; };
  for (int radius : {2, 3}) {
    CoordinateDescent descent(space, {0}, cost({0}), {radius});
    Converge(&descent, 1, space, cost);
    EXPECT_EQ(descent.best(), Point({radius == 3 ? 9 : 0}));
  }
}

TEST(CoordinateDescent, ConfirmsSingleSamples) {
  for (const auto& [again, best] : std::vector<std::pair<Samples, Point>>{
           {{0.6}, {2}}, {{1.5}, {1}}, {{}, {1}}, {{std::nan("")}, {1}}}) {
    CoordinateDescent descent(Axes({2}), {1}, {0.9});
    const Points first = descent.Ask(4);
    EXPECT_EQ(Sorted(first), Points({{0}, {1}, {2}}));
    EXPECT_EQ(first[0], Point({1}));
    descent.Tell({2}, {0.5});
    descent.Tell({0}, {1.5});
    EXPECT_EQ(descent.best(), Point({1}));
    // Both are measured again, and nothing is decided before both are told.
    EXPECT_EQ(descent.Ask(4), Points({{2}}));
    EXPECT_TRUE(descent.Told({2}));
    descent.Tell({2}, again);
    EXPECT_EQ(descent.best(), Point({1}));
    EXPECT_EQ(descent.Ask(4), Points({}));
    EXPECT_FALSE(descent.Converged());
    descent.Tell({1}, {1.0});
    EXPECT_EQ(descent.best(), best);
    EXPECT_EQ(descent.best_cost(), best == Point({1}) ? 1.0 : 0.55);
    EXPECT_TRUE(descent.Converged());
  }
}

TEST(CoordinateDescent, CorrectsALuckyStart) {
  // Even the mean of the start's samples would hide that its neighbor is better.
  CoordinateDescent descent(Axes({1}), {0}, {0.8});
  EXPECT_EQ(descent.Ask(4), Points({{0}, {1}}));
  descent.Tell({1}, {0.93});
  descent.Tell({0}, {1.0});
  EXPECT_EQ(descent.best_cost(), 1.0);
  EXPECT_EQ(descent.Ask(4), Points({{1}}));
  descent.Tell({1}, {0.93});
  EXPECT_EQ(descent.best(), Point({1}));
  EXPECT_TRUE(descent.Converged());
}

TEST(CoordinateDescent, ImprovesAfterADrift) {
  // Everything costs three times what it did when the start was measured.
  const CoordinateSpace space = Axes({9, 9});
  auto cost = [](const Point& x) {
    return Samples{3 * (10.0 + std::abs(x[0] - 7) + std::abs(x[1] - 2))};
  };
  for (size_t batch_size : {1, 4, 16}) {
    CoordinateDescent descent(space, {0, 9}, {24});
    Converge(&descent, batch_size, space, cost);
    EXPECT_EQ(descent.best(), Point({7, 2}));
    EXPECT_EQ(descent.best_cost(), 30);
  }
}

TEST(CoordinateDescent, TriesNeighborsNearGoodOutcomesFirst) {
  // Once two directions paid and two did not, what combines those that paid promises most.
  const CoordinateSpace space = Axes({1, 1, 1, 1});
  for (uint32_t seed = 0; seed < 5; ++seed) {
    CoordinateDescent descent(space, {0, 0, 0, 0}, {1.0, 1.0}, {}, seed);
    for (const Point& point : descent.Ask(4)) {
      const double cost = point[0] || point[1] ? 0.5 + 0.01 * point[1] : 2.0;
      descent.Tell(point, {cost, cost});
    }
    EXPECT_EQ(descent.best(), Point({1, 0, 0, 0}));
    EXPECT_EQ(descent.Ask(1), Points({{1, 1, 0, 0}}));
  }
}

TEST(CoordinateDescent, TriesFewCombinationsBeforeItConverges) {
  const CoordinateSpace space = Axes({1, 1, 1, 1, 1, 1, 1, 1});
  const Point start(8, 0);
  auto cost = [](const Point& point) {
    const int sum = std::accumulate(point.begin(), point.end(), 0);
    return Samples(2, sum <= 1 ? 1 + 0.01 * sum : 2.0);
  };
  CoordinateDescent descent(space, start, cost(start));
  std::map<int, int> tried;  // by the number of steps
  while (!descent.Converged()) {
    for (const Point& point : descent.Ask(1)) {
      ++tried[std::accumulate(point.begin(), point.end(), 0)];
      descent.Tell(point, cost(point));
    }
  }
  EXPECT_EQ(descent.best(), start);
  EXPECT_EQ(tried[1], 8);
  EXPECT_EQ(tried[2], 16);
}

TEST(CoordinateDescent, AsksForWhatThePriorPrefers) {
  const CoordinateSpace space = Axes({9, 9, 9});
  auto prior = [](const Points& points) {
    std::vector<double> guesses;
    for (const Point& x : points) {
      // Nothing above 5 can be measured.
      guesses.push_back(x[2] > 5 ? INFINITY : std::abs(x[0] - 7) + std::abs(x[1] - 2));
    }
    return guesses;
  };
  auto cost = [](const Point& x) {
    EXPECT_LE(x[2], 5);
    return Samples(2, 30.0 + std::abs(x[0] - 7) + std::abs(x[1] - 2) - x[2]);
  };
  CoordinateDescent descent(space, {0, 9, 0}, cost({0, 9, 0}), {}, 0, prior);
  EXPECT_EQ(Sorted(descent.Ask(2)), Points({{0, 8, 0}, {1, 9, 0}}));
  descent.Withdraw();
  Converge(&descent, 4, space, cost);
  EXPECT_EQ(descent.best(), Point({7, 2, 5}));
}

TEST(CoordinateDescent, DoesNotBelieveAPriorThatIsWrong) {
  const CoordinateSpace space = Axes({9, 9, 9});
  auto prior = [](const Points& points) {
    std::vector<double> guesses;
    for (const Point& x : points) {
      guesses.push_back(-10.0 * (std::abs(x[0] - 7) + std::abs(x[1] - 2) + std::abs(x[2] - 5)));
    }
    return guesses;
  };
  auto cost = [](const Point& x) {
    return Samples(2, 1.0 + std::abs(x[0] - 7) + std::abs(x[1] - 2) + std::abs(x[2] - 5));
  };
  CoordinateDescent descent(space, {0, 9, 0}, cost({0, 9, 0}), {}, 0, prior);
  EXPECT_LE(Converge(&descent, 4, space, cost), 150);
  EXPECT_EQ(descent.best(), Point({7, 2, 5}));
}

TEST(CoordinateDescent, AsksThePriorAboutFewPoints) {
  const Point start(50, 4);
  size_t num_asked = 0;
  auto prior = [&](const Points& points) {
    num_asked += points.size();
    return Samples(points.size(), 0.0);
  };
  CoordinateDescent descent(Axes(Point(50, 9)), start, {1.0, 1.0}, {}, 0, prior);
  for (int i = 0; i < 10; ++i) {
    num_asked = 0;
    const Points batch = descent.Ask(8);
    EXPECT_EQ(batch.size(), 8);
    EXPECT_LE(num_asked, 64);  // Of 100 neighbors and many more combinations.
    for (const Point& point : batch) {
      descent.Tell(point, {2.0, 2.0});
    }
  }
}

TEST(CoordinateDescent, FindsTheOnlyNeighborsThatThePriorAllows) {
  const Point start(50, 4);
  auto is_possible = [&](const Point& point) { return point[37] != start[37]; };
  auto prior = [&](const Points& points) {
    Samples guesses;
    for (const Point& point : points) {
      guesses.push_back(is_possible(point) ? 0.0 : std::numeric_limits<double>::infinity());
    }
    return guesses;
  };
  CoordinateDescent descent(Axes(Point(50, 9)), start, {1.0, 1.0}, {}, 0, prior);
  const Points batch = descent.Ask(8);
  EXPECT_EQ(batch.size(), 2);
  EXPECT_TRUE(std::all_of(batch.begin(), batch.end(), is_possible));
}

TEST(CoordinateDescent, FindsTheOnlyCombinationThatThePriorAllows) {
  const Point start(4, 4);
  const CoordinateSpace space = Axes(Point(4, 9));
  for (const Direction& first : space.directions) {
    for (const Direction& second : space.directions) {
      Point combination = start;
      for (const Direction& step : {first, second}) {
        combination[step[0].first] += step[0].second;
      }
      if (combination == start) {
        continue;
      }
      auto prior = [&](const Points& points) {
        Samples guesses;
        for (const Point& point : points) {
          int distance = 0;
          for (size_t i = 0; i < point.size(); ++i) {
            distance += std::abs(point[i] - start[i]);
          }
          guesses.push_back(distance < 2 || point == combination ? 0.0 : INFINITY);
        }
        return guesses;
      };
      bool tried = false;
      auto cost = [&](const Point& point) {
        tried |= point == combination;
        return Samples(2, point == start ? 1.0 : 2.0);
      };
      CoordinateDescent descent(space, start, cost(start), {}, 0, prior);
      Converge(&descent, 4, space, cost);
      EXPECT_TRUE(tried);
    }
  }
}

TEST(CoordinateDescent, RefusesAPriorThatDoesNotAnswer) {
  CoordinateDescent descent(Axes({9}), {4}, {1.0}, {}, 0, [](const Points&) { return Samples{1}; });
  EXPECT_NE(Refusal([&] { descent.Ask(4); }).find("2 points"), std::string::npos);
}

TEST(CoordinateDescent, TestsSeveralSamples) {
  const Samples start{0.999, 1.0, 1.001};
  // Less than the margin but significant, and the other way round.
  for (const auto& [samples, best] : std::vector<std::pair<Samples, Point>>{
           {{0.993, 0.994, 0.995}, {1}}, {{0.4, 0.9, 1.4}, {0}}, {{}, {0}}}) {
    CoordinateDescent descent(Axes({1}), {0}, start);
    EXPECT_EQ(descent.Ask(4), Points({{1}}));
    descent.Tell({1}, samples);
    EXPECT_EQ(descent.best(), best);
    EXPECT_TRUE(descent.Converged());
  }
}

TEST(CoordinateDescent, TakesOutcomesInAnyOrder) {
  const CoordinateSpace space = Axes({9, 9});
  auto cost = [](const Point& x) { return 1.0 + std::abs(x[0] - 7) + std::abs(x[1] - 2); };
  std::mt19937 random(0);
  for (uint32_t seed = 0; seed < 20; ++seed) {
    CoordinateDescent descent(space, {0, 9}, {cost({0, 9})}, {}, seed);
    std::set<Point> outstanding;
    while (!descent.Converged()) {
      for (const Point& point : descent.Ask(random() % 4)) {
        EXPECT_TRUE(outstanding.insert(point).second);
      }
      if (!outstanding.empty()) {
        auto point = std::next(outstanding.begin(), random() % outstanding.size());
        descent.Tell(*point, {cost(*point)});
        outstanding.erase(point);
      }
    }
    EXPECT_TRUE(outstanding.empty());
    EXPECT_EQ(descent.best(), Point({7, 2}));
  }
}

TEST(CoordinateDescent, HasNothingToTryInAnEmptySpace) {
  CoordinateDescent no_coordinates({{}, {}}, {}, {1.0});
  EXPECT_TRUE(no_coordinates.Converged());
  EXPECT_EQ(no_coordinates.Ask(8), Points({}));
  CoordinateDescent no_directions({{5}, {}}, {2}, {1.0, 1.1});
  EXPECT_TRUE(no_directions.Converged());
  EXPECT_EQ(no_directions.Ask(8), Points({}));
}

TEST(CoordinateDescent, IsSeeded) {
  const CoordinateSpace space = Axes({2, 2, 2, 2, 2});
  auto first = [&](uint32_t seed) {
    return CoordinateDescent(space, {1, 1, 1, 1, 1}, {1.0, 1.0}, {}, seed).Ask(10);
  };
  EXPECT_EQ(first(1), first(1));
  EXPECT_NE(first(1), first(2));
  EXPECT_EQ(Sorted(first(1)), Sorted(first(2)));
}

TEST(CoordinateDescent, RefusesBadArguments) {
  struct {
    CoordinateSpace space = Axes({5});
    Point start = {1};
    Samples costs = {1.0};
    CoordinateDescentOptions options;
  } defaults;
  auto refusal = [&](auto change) {
    auto arguments = defaults;
    change(&arguments);
    return Refusal([&]() {
      CoordinateDescent(arguments.space, arguments.start, arguments.costs, arguments.options);
    });
  };
  auto names = [](const std::string& message, const std::string& value) {
    return message.find(value) != std::string::npos
               ? ::testing::AssertionSuccess()
               : ::testing::AssertionFailure() << message << ": does not name " << value;
  };
  EXPECT_TRUE(names(refusal([](auto*) {}), "nothing"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->space.upper = {-77}; }), "-77"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->space.directions = {{{77, 1}}}; }), "77"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->space.directions = {{{-77, 1}}}; }), "-77"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->space.directions = {{{0, 0}}}; }), "direction"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->space.directions = {{}}; }), "direction"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->start = {77}; }), "77"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->start = {1, 77}; }), "77"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->start = {}; }), "start"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->costs = {}; }), "cost"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->costs = {1, std::nan("")}; }), "nan"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->costs = {INFINITY}; }), "inf"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->costs = {1.5e308, 1.5e308}; }), "1.5e+308"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->options.radius = 0; }), "radius"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->options.p_value = 0; }), "p_value"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->options.p_value = 1; }), "p_value"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->options.margin = -0.25; }), "-0.25"));
  EXPECT_TRUE(names(refusal([](auto* a) { a->options.margin = 1; }), "margin"));

  CoordinateDescent descent(defaults.space, {1}, {1.0});
  EXPECT_TRUE(names(Refusal([&]() { descent.Tell({77}, {1.0}); }), "77"));
  EXPECT_TRUE(names(Refusal([&]() { descent.Tell({1}, {1.0}); }), "1"));
}

TEST(CoordinateSpace, ContainsPointsOfItsSizeOnly) {
  const CoordinateSpace space{{3, 0}, {}};
  for (const Point& point : Points{{0, 0}, {3, 0}}) {
    EXPECT_TRUE(space.Contains(point));
  }
  for (const Point& point : Points{{4, 0}, {-1, 0}, {0, 1}, {0}, {0, 0, 0}, {}}) {
    EXPECT_FALSE(space.Contains(point));
  }
}

TEST(WelchTTest, PValue) {
  // The values are those of scipy.stats.ttest_ind(equal_var=False, alternative="less").
  EXPECT_NEAR(WelchPValue({1, 2}, {8, 9}), 0.005025253169416733, 1e-9);
  EXPECT_NEAR(WelchPValue({8, 9}, {1, 2}), 0.9949747468305833, 1e-9);
  EXPECT_NEAR(WelchPValue({0.9, 1.0, 0.95}, {1.0, 1.1, 1.02}), 0.0495851080476526, 1e-9);
  EXPECT_NEAR(WelchPValue({1, 2, 3, 4, 5}, {1.5, 2.5}), 0.8470883509162566, 1e-9);
  EXPECT_NEAR(WelchPValue({1, 1}, {1, 2, 3}), 0.11270166537925833, 1e-9);
  EXPECT_NEAR(WelchPValue({1.0, 1.000001}, {1.000002, 1.000003, 1.000004}), 0.024708128433910716,
              1e-9);
}

TEST(WelchTTest, WithoutVariance) {
  EXPECT_EQ(WelchPValue({1, 1, 1}, {2, 2}), 0);
  EXPECT_EQ(WelchPValue({2, 2, 2}, {1, 1}), 1);
  EXPECT_EQ(WelchPValue({1, 1}, {1, 1}), 0.5);
  // Here the variances vanish when they are squared.
  EXPECT_NEAR(WelchPValue({1e-90, 2e-90}, {8e-90, 9e-90}), WelchPValue({1, 2}, {8, 9}), 1e-12);
}

}  // namespace
}  // namespace auto_scheduler
}  // namespace tvm
