"""Published tables of measurements, and the code that reproduces them on this machine.

*.yaml         one published experiment each: the printed figures, and the kernel and configuration of each row
experiment.py  the dataclasses of such a file
reading.py     read YAML into an experiment
running.py     run an experiment, stage by stage
stage.py       measure one stage
results.py     the dataclasses of results
tables.py      published against measured: Markdown, JSON, and text for a terminal
plot.py        published against measured: a plot
"""
