"""Layer normalisation of rows, with weights and biases: a program holds ROWS whole rows.

The variance is the mean of squared distances from the mean, in a second pass over registers: squares of the elements
themselves would lose digits.
"""

import triton
import triton.language as tl


@triton.jit
def layer_norm(y, x, weight, bias, rows, columns, epsilon, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Each row of x, normalised."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    in_row = column[None, :] < columns
    inside = (row[:, None] < rows) & in_row
    at = row[:, None] * columns + column[None, :]
    v = tl.load(x + at, mask=inside, other=0.0)
    centred = tl.where(in_row, v - (tl.sum(v, axis=1) / columns)[:, None], 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=1) / columns + epsilon)
    w = tl.load(weight + column, mask=column < columns, other=0.0)
    b = tl.load(bias + column, mask=column < columns, other=0.0)
    tl.store(y + at, centred * scale[:, None] * w[None, :] + b[None, :], mask=inside)
