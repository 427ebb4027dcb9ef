"""Prefer configurations whose code serves many sizes to those that are compiled for one size."""

from __future__ import annotations

import numpy as np

from tuner.families.code import SizedCode
from tuner.search.pool import Pool
from tuner.space.config import Config
from tuner.space.model import Space
from tuner.space.scope import Scope


def size_independent(space: Space, scope: Scope, pool: Pool) -> Pool:
    """The configurations of a pool whose code serves many sizes; the whole pool if there are none."""
    code = SizedCode(space)
    columns = [pool.names.index(name) for name in code.parameters]
    if not columns:
        return pool
    # Whether code is for one size depends on these parameters only, so one configuration of each group suffices.
    _, first, members = np.unique(pool.rows[:, columns], axis=0, return_index=True, return_inverse=True)
    serves_many = np.array([not code.is_for_one_size(pool.config(int(row)), scope) for row in first])
    kept = serves_many[members.reshape(-1)]
    return Pool.of_rows(space.parameters, pool.rows[kept]) if kept.any() and not kept.all() else pool


def made_size_independent(space: Space, scope: Scope, config: Config) -> Config:
    """`config`, or one that differs in a single parameter and whose code serves many sizes.

    Returns `config` if its code serves many sizes, if it is invalid, or if there is no such other configuration.
    """
    code = SizedCode(space)
    if space.valid(config, scope) and code.is_for_one_size(config, scope):
        for name in code.parameters:
            for value in space.parameters[name]:
                other = {**config, name: value}
                if space.valid(other, scope) and not code.is_for_one_size(other, scope):
                    return other
    return config
