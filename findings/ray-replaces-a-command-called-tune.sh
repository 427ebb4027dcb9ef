#!/bin/sh
# The package ray alone, without its extra `tune`, installs a command `tune`, silently over one that another package has
# installed. It cannot run: it ends with a traceback that asks for ray[tune]. Removing ray removes the command of the other package.
# One would expect a command of Ray Tune only with ray[tune], under a name with `ray` in it, as Ray's other commands are part of `ray`.
# Package: ray 2.60.0 (bin/tune, of the entry point ray.tune.cli.scripts:cli), pip 25.3.
# Source: run here, with a package of 15 lines that this script writes; `pip check` finds nothing. Several tuners call their
# command `tune`: whoever adds Ray to tune on a cluster loses the tuner's command, and after `pip uninstall ray` has none at all.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'pip==25.3' 'setuptools==80.9.0'
mkdir own
cat >own/pyproject.toml <<'TOML'
[build-system]
requires = []
build-backend = "setuptools.build_meta"
[project]
name = "sample"
version = "1"
[project.scripts]
tune = "sample:main"
[tool.setuptools]
py-modules = ["sample"]
TOML
printf 'def main():\n    print("the sample")\n' >own/sample.py
env/bin/python -m pip install -q --disable-pip-version-check --no-build-isolation ./own
command=$folder/env/bin/tune # that of ray, and of the package above
before=$("$command")
env/bin/python -m pip install -q --disable-pip-version-check 'ray==2.60.0'
env/bin/python -c 'import importlib.metadata as m; print("ray", m.version("ray"))'
env/bin/python -m pip check
with=$("$command" 2>&1 | tail -n 1) || true
env/bin/python -m pip uninstall -q -y ray
after=$("$command" 2>&1) || after="no such command"
echo "before: $before"
echo "with ray: $with"
echo "after its removal: $after"
[ "$before" = "the sample" ]
case $with in *'ray[tune]'*) ;; *) exit 1 ;; esac
[ "$after" = "no such command" ]
