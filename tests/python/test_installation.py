"""README's installation works as it is written, on a system that has nothing (tests/soak/install.sh)."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_readme_installs_trireme_on_a_fresh_debian(tmp_path):
    if not shutil.which("mmdebstrap") or os.geteuid():
        pytest.skip("takes root and mmdebstrap: deploy/setup.sh image")
    done = subprocess.run([ROOT / "tests" / "soak" / "install.sh", tmp_path / "debian"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=7200, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert done.stdout.count("epoch 5: loss 0.0") == 2 and done.stdout.endswith("all of it works\n"), done.stdout
