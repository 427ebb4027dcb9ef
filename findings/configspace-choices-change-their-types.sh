#!/bin/sh
# A choice of ConfigSpace comes back as another type: of the categorical [1, 2.5], the integer 1 is drawn as np.float64(1.0), and of [True, 2], True
# is drawn as np.int64(1); ordinals do the same. The default configuration of the same space has 1 and True. With a text among
# the choices, as in [1, 2.5, "auto"], all keep their types. No message is given.
# One would expect the choice that was given, or one type everywhere.
# Packages: ConfigSpace 1.2.2, numpy 2.4.6. SMAC and others draw from it.
# `#define VECTOR 1.0` does not build, or divides indices as floats, and `#define FLAG 1` is not `#define FLAG True`: the default that
# is measured first is another kernel than the same configuration in the search.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv env
env/bin/python -m pip install -q --disable-pip-version-check 'ConfigSpace==1.2.2' 'numpy==2.4.6'
cat >check.py <<'EOF'
from importlib.metadata import version

from ConfigSpace import CategoricalHyperparameter, ConfigurationSpace, OrdinalHyperparameter


def forms(hyperparameter):
    """The default's form, and those of the values that are drawn."""
    space = ConfigurationSpace(seed=0)
    space.add(hyperparameter)
    drawn = {repr(configuration["x"]) for configuration in space.sample_configuration(50)}
    return repr(space.get_default_configuration()["x"]), sorted(drawn)


print("ConfigSpace", version("ConfigSpace"))
found = {}
for choices in ([1, 2.5], [True, 2], [1, 2.5, "auto"]):
    found[str(choices)] = default, drawn = forms(CategoricalHyperparameter("x", choices))
    print(f"categorical {choices}: the default is {default}, drawn are", ", ".join(drawn))
default, drawn = forms(OrdinalHyperparameter("x", [1, 2.5, 4]))
print(f"ordinal [1, 2.5, 4]: the default is {default}, drawn are", ", ".join(drawn))
assert found["[1, 2.5]"] == ("1", ["np.float64(1.0)", "np.float64(2.5)"]), "the behaviour has changed"
assert found["[True, 2]"] == ("True", ["np.int64(1)", "np.int64(2)"]), "the behaviour has changed"
assert found["[1, 2.5, 'auto']"] == ("1", ["'auto'", "1", "2.5"]), "the behaviour has changed"
assert "np.float64(1.0)" in drawn, "the behaviour has changed"
EOF
env/bin/python check.py
