"""Published tables of measurements, and the runs that reproduce them on the device at hand.

*.yaml        one published experiment each: what was printed, and which stage and configuration each row is
published.py  what such a file says, frozen
reading.py    YAML -> published
running.py    published -> results, stage by stage
stage.py      the rows of one stage, measured
results.py    what was measured, frozen
tables.py     published against measured: as Markdown, as JSON, in lines and columns
plot.py       the same as a picture
"""
