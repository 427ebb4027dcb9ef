"""Prediction: a model of kernel times at sizes that were not measured, learnt from the times of other sizes."""
