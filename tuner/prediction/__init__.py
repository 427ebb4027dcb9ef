"""Time models: predict kernel times at sizes that were not measured, from the times at other sizes."""
