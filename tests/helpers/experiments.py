"""An experiment of a test's own."""

from __future__ import annotations

EXPERIMENT = """\
title: a test's own
author: nobody
where: nowhere
device: a slow one
tables:
  - title: table
    size: 64
    small: 32
    rows:
"""
