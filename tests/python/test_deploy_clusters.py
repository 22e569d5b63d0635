"""Files of deploy/ for clusters: EasyBuild, Apptainer, Lmod, ReFrame, Kubeflow Trainer. Tests that lack a tool are left out."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from trireme.launch import cli

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
VERSION = re.search(r"project\(trireme VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()


def at_least(version, least):
    return [*map(int, version.split("."))] >= [*map(int, least.split("."))]


def test_the_recipe_of_easybuild_takes_what_the_package_takes():
    """A recipe is Python. `eb -D` resolves its dependencies by hand (deploy/README.md)."""
    path, = (DEPLOY / "easybuild").glob("trireme-ps-*.eb")
    recipe = {node.targets[0].id: ast.literal_eval(node.value) for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)}
    assert path.name == f"{recipe['name']}-{recipe['version']}-foss-{recipe['toolchain']['version']}.eb"
    assert (recipe["name"], recipe["version"]) == (PROJECT["name"], VERSION)
    taken = dict(recipe["builddependencies"] + recipe["dependencies"])
    assert at_least(taken["Python"], PROJECT["requires-python"].removeprefix(">="))
    needs = dict(one.split(">=") for one in [*PROJECT["dependencies"], *SETTINGS["build-system"]["requires"]] if ">=" in one)
    for name in ("cffi", "scikit-build-core"):
        assert at_least(taken[name], needs[name])
    assert {"SciPy-bundle", "protobuf-c", "zlib", "CMake", "Ninja"} <= set(taken)
    text = (ROOT / "CMakeLists.txt").read_text()
    assert all(re.search(rf"(?:option|set)\({name}\b", text) for name in re.findall(r"cmake\.define\.(\w+)", recipe["installopts"]))


def sections():
    found = re.split(r"^%(\w+)\n", (DEPLOY / "trireme.def").read_text(), flags=re.M)
    return dict(zip(found[1::2], found[2::2]))


def test_the_image_of_apptainer_has_what_that_of_docker_has():
    parts = sections()
    assert re.search(r"^FROM (\S+)", DOCKERFILE, re.M)[1] in (DEPLOY / "trireme.def").read_text().splitlines()[1]
    packages = [{word for word in line.split() if re.match(r"\w", word)}
                for line in re.findall(r"apt-get install(.*)$", DOCKERFILE + parts["post"], re.M)]
    build, runs, runs_here, build_here = packages
    assert build - {"python3-pip"} == build_here and runs - {"openssh-server"} == runs_here
    for line in parts["files"].splitlines():
        assert not line.strip() or [*map(str, (ROOT / line.split()[0]).parent.glob(line.split()[0]))], line
    assert {line.split()[0] for line in parts["files"].splitlines() if line.strip()} >= {
        "CMakeLists.txt", "pyproject.toml", *re.findall(r"tr_add_floor\((\w+)", (ROOT / "CMakeLists.txt").read_text())}
    assert f"image.version {VERSION}\n" in parts["labels"]


def test_lines_that_start_jobs_in_images_are_read_by_trireme():
    lines = re.findall(r"apptainer exec trireme\.sif (trireme launch .*)$", sections()["help"], re.M)
    assert lines and all(cli.command_parser().parse_args(line.split()[1:]).trainers == 4 for line in lines)


@pytest.mark.skipif(not Path("/usr/share/lmod/lmod/libexec/lmod").exists(), reason="no Lmod: apt-get install lmod")
def test_the_module_brings_commands_pages_and_completions():
    script = ('source /usr/share/lmod/lmod/init/bash; module use "$1"; module load trireme; '
              'echo "$PATH|$MANPATH|$XDG_DATA_DIRS|$TRIREME_VENV"; module unload trireme; echo "$TRIREME_VENV|$PATH"')
    said = subprocess.run(["bash", "-c", script, "bash", DEPLOY / "modulefiles"], capture_output=True, text=True, check=True, timeout=60,
                          env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}).stdout.splitlines()
    root = f"/opt/trireme/{VERSION}"
    path, pages, shared, venv = said[0].split("|")
    assert path.startswith(f"{root}/bin:") and pages.split(":") == [f"{root}/share/man", "", ""] and shared == f"{root}/share"
    assert venv == root and said[1].startswith("|") and root not in said[1]


@pytest.fixture
def manifests():
    yaml = pytest.importorskip("yaml")
    return dict(zip(("runtime", "job"), yaml.safe_load_all((DEPLOY / "trainjob.yaml").read_text())))


def lost(given, kept, at=""):
    """What a model has not kept of a manifest: fields that it does not know."""
    if isinstance(given, dict):
        return [where for key, value in given.items()
                for where in (lost(value, kept[key], f"{at}/{key}") if key in kept else [f"{at}/{key}"])]
    if isinstance(given, list):
        return [where for i, (one, other) in enumerate(zip(given, kept, strict=True)) for where in lost(one, other, f"{at}[{i}]")]
    return [] if given == kept else [at]


def test_the_models_of_kubeflow_trainer_know_all_fields(manifests):
    models = pytest.importorskip("kubeflow_trainer_api.models")
    for name, model in (("runtime", models.TrainerV1alpha1TrainingRuntime), ("job", models.TrainerV1alpha1TrainJob)):
        assert lost(manifests[name], model.from_dict(manifests[name]).to_dict()) == []
    manifests["job"]["spec"]["trainer"]["numNode"] = 2
    assert lost(manifests["job"], models.TrainerV1alpha1TrainJob.from_dict(manifests["job"]).to_dict()) == ["/spec/trainer/numNode"]


def test_a_train_job_fits_its_runtime_and_the_image(manifests):
    runtime, job = manifests["runtime"], manifests["job"]
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"] and job["spec"]["runtimeRef"]["kind"] == runtime["kind"]
    mpi, trainer = runtime["spec"]["mlPolicy"]["mpi"], job["spec"]["trainer"]
    options = cli.command_parser().parse_args([*trainer["command"][1:], *trainer["args"]])
    assert trainer["command"][0] == "trireme" and options.servers + options.trainers <= trainer["numNodes"] * trainer["numProcPerNode"]
    pods = {one["name"]: one["template"]["spec"]["template"]["spec"] for one in runtime["spec"]["template"]["spec"]["replicatedJobs"]}
    node, = pods["node"]["containers"]
    assert mpi["sshAuthMountPath"] == "/home/trainer/.ssh" and f"HostKey {mpi['sshAuthMountPath']}/id_rsa" in DOCKERFILE
    assert node["args"][-1] in DOCKERFILE and f"Port {node['readinessProbe']['tcpSocket']['port']}" in DOCKERFILE
    assert "/dev/shm" in [mount["mountPath"] for mount in node["volumeMounts"]]


def test_the_checks_of_reframe_start_what_trireme_reads(tmp_path):
    """`reframe -l` loads them; deploy/README.md says where they were run."""
    if not shutil.which("reframe"):
        pytest.skip("no reframe: pip install reframe-hpc")
    done = subprocess.run(["reframe", "-c", DEPLOY / "reframe", "-l", "--prefix", tmp_path], capture_output=True, text=True, timeout=100,
                          check=False, cwd=tmp_path)
    assert done.returncode == 0 and {"TriremeDoctor", "TriremeLearns"} <= {*re.findall(r"^- (\w+)", done.stdout, re.M)}, done.stdout
