"""A few of the damaged files that ``fuzz_saving`` makes up."""

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from gpuens.saving.file import DOCUMENT

from .fuzz_saving import MODELS, damaged, lying, use
from .model_files import fitted, table

N_FILES = 100


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_damaged_files_are_refused_or_predict(name, tmp_path):
    path, (X, _), rng = tmp_path / "model.gpuens", table(), np.random.default_rng(0)
    fitted(name).save(path)
    with safe_open(path, framework="numpy") as file:
        document = json.loads(file.metadata()[DOCUMENT])
    whole, arrays = path.read_bytes(), load_file(path)
    refused = 0
    for k in range(N_FILES):
        data = damaged(whole, rng) if k % 4 == 0 else lying(document, arrays, rng)
        path.write_bytes(data)
        refused += use(path, X[:9]) == "refused"
    assert refused > N_FILES // 2
