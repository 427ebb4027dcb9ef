#!/bin/sh
# A NaN drives numbers off the Pareto front of pymoo and DEAP: of (1, 5), (2, 3), (5, 1) and (NaN, 0.5), DEAP's ParetoFront keeps the last alone.
# pymoo's NSGA2, which minimises x and a second objective that is NaN where x < 0.3, returns one result, with a NaN, of a run with 31 evaluations
# that had none. One would expect that a NaN is never better, or an error. No warning is given.
# Packages: pymoo 0.6.2, deap 1.4.4.
# A search for times and energies writes NaN where a sensor has no reading or a kernel fails: all configurations that work are lost.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'pymoo==0.6.2' 'deap==1.4.4' 'numpy==2.4.6'
cat >check.py <<'END'
import math
from importlib.metadata import version

import numpy as np
from deap import base, creator, tools
from pymoo.algorithms.moo.nsga2 import NSGA2
from pymoo.core.problem import ElementwiseProblem
from pymoo.optimize import minimize

nan = math.nan
ROWS = [(1.0, 5.0), (2.0, 3.0), (5.0, 1.0), (nan, 0.5)]
creator.create("Costs", base.Fitness, weights=(-1.0, -1.0))
creator.create("Row", tuple, fitness=creator.Costs)


def in_deap(rows):
    individuals = [creator.Row(row) for row in rows]
    for individual in individuals:
        individual.fitness.values = individual
    front = tools.ParetoFront()
    front.update(individuals)
    return sorted(tuple(individual) for individual in front)


class Kernel(ElementwiseProblem):
    def __init__(self):
        super().__init__(n_var=1, n_obj=2, xl=0, xu=1)
        self.valid = 0

    def _evaluate(self, x, out, *args, **kwargs):
        self.valid += x[0] >= 0.3
        out["F"] = [1 + x[0], 2 - x[0] if x[0] >= 0.3 else nan]


found = in_deap(ROWS)
print("deap", version("deap"), "without NaN:", in_deap(ROWS[:3]), "with it:", found)
assert in_deap(ROWS[:3]) == ROWS[:3] and len(found) == 1 and math.isnan(found[0][0]), "the behaviour has changed"
kernel = Kernel()
found = minimize(kernel, NSGA2(pop_size=20), ("n_gen", 10), seed=1).F
print("pymoo", version("pymoo"), "results:", found.tolist(), "of", kernel.valid, "evaluations without NaN")
assert kernel.valid >= 20 and len(found) == 1 and np.isnan(found[0, 1]), "the behaviour has changed"
END
env/bin/python check.py
