"""Published tables of measurements, and the runs that reproduce them on the device at hand.

*.yaml        one published experiment each: the printed figures, and the stage and configuration of each row
experiment.py  the frozen values of such a file
reading.py    YAML -> experiment
running.py    experiment -> results, stage by stage
stage.py      the measurements of one stage
results.py    the frozen results
tables.py     published against measured: Markdown, JSON, lines and columns for a terminal
plot.py       published against measured: a plot
"""
