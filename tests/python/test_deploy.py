"""The files of deploy/ are what their readers expect: Kubernetes and its MPI operator, Docker, Slurm, Spack."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest
from job_support import needs_mpi

from trireme.launch import cli

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


# -- Kubernetes ------------------------------------------------------------------------------------------------------


@pytest.fixture
def job():
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((DEPLOY / "mpijob.yaml").read_text())


def mistakes(job):
    """What the operator's definition says against a manifest."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(Path(__file__).with_name("mpijob.schema.json").read_text())
    return [f"{error.json_path}: {error.message}" for error in jsonschema.Draft202012Validator(schema).iter_errors(job)]


def replicas(job, which):
    return job["spec"]["mpiReplicaSpecs"][which]


def containers(job):
    return [(pod, container) for which in ("Launcher", "Worker") for pod in [replicas(job, which)["template"]["spec"]]
            for container in pod["containers"]]


def test_the_manifest_fits_the_operators_definition(job):
    assert mistakes(job) == []


def change(job, path, value):
    job = copy.deepcopy(job)
    *folders, last = path.split("/")
    at = job
    for folder in folders:
        at = at[folder]
    at[last] = value
    return job


@pytest.mark.parametrize("path, value", [
    ("apiVersion", "kubeflow.org/v1"), ("metadata/name", "Trireme_1"), ("spec/slotsPerWorker", "4"), ("spec/cleanPodPolicy", "Running"),
    ("spec/runPolicy/cleanPodPolicy", "Always"), ("spec/runPolicy/backoffLimit", -1), ("spec/mpiReplicaSpecs/Launcher/replicas", 2),
    ("spec/mpiReplicaSpecs/Launcher/restartPolicy", "Always"), ("spec/mpiReplicaSpecs/Worker/replicas", 0),
    ("spec/mpiReplicaSpecs/Launcher/template/spec/restartPolicy", "OnFailure"), ("spec/mpiReplicaSpecs/Server", {}),
    ("spec/mpiReplicaSpecs/Worker/template/spec/containers", []),
])
def test_the_definition_finds_mistakes(path, value, job):
    assert mistakes(change(job, path, value))


def test_its_pods_are_pods_of_kubernetes(job):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for which in ("Launcher", "Worker"):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, **replicas(job, which)["template"]}
        for version in ("1.29", kubernetes_validate.latest_version()):
            kubernetes_validate.validate(pod, version, strict=True)
        pod["spec"]["containers"][0]["volumeMount"] = []
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(pod, "1.29", strict=True)


def test_its_volumes_and_folders_fit_together(job):
    for pod, container in containers(job):
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    ssh = job["spec"]["sshAuthMountPath"]
    config = re.search(r"-f \S+|/\S+sshd_config", " ".join(containers(job)[1][1]["args"]))[0].removeprefix("-f ")
    assert f"HostKey {ssh}/id_rsa" in DOCKERFILE and f">{config}" in DOCKERFILE
    ports = re.findall(r"Port (\d+)", DOCKERFILE)
    assert len(ports) == 2 and len(set(ports)) == 1, "the ssh server and its clients use the same port"


@needs_mpi
def test_its_launcher_takes_the_operators_list_of_hosts(job, tmp_path, capsys, monkeypatch):
    count, slots = replicas(job, "Worker")["replicas"], job["spec"]["slotsPerWorker"]
    name = job["metadata"]["name"]
    hosts = tmp_path / "hostfile"
    hosts.write_text("".join(f"{name}-worker-{i}.{name}.default.svc slots={slots}\n" for i in range(count)))
    container = containers(job)[0][1]
    assert container["command"] == ["sh", "-c"]
    claim = tmp_path / "claim"
    (tmp_path / "trireme").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (tmp_path / "trireme").chmod(0o755)
    script = container["args"][0].replace("/etc/mpi/hostfile", str(hosts)).replace("/checkpoints", str(claim))
    words = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=30, check=True,
                           env={"PATH": f"{tmp_path}:/usr/bin:/bin"}).stdout.split()
    assert "--resume=auto" in words and f"{claim}/digits" in words
    ranks = sum(int(words[words.index(option) + 1]) for option in ("--servers", "--trainers"))
    assert ranks <= count * slots
    monkeypatch.chdir(ROOT)
    assert cli.main([words[0], "--dry-run", *words[1:]]) == 0
    line = capsys.readouterr().out
    assert all(f"{name}-worker-{i}.{name}.default.svc" in line for i in range(count))


def test_its_model_server_is_a_pod_and_its_probes_are_the_servers():
    yaml, kubernetes_validate = pytest.importorskip("yaml"), pytest.importorskip("kubernetes_validate")
    service = yaml.safe_load((DEPLOY / "inferenceservice.yaml").read_text())
    assert (service["apiVersion"], service["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    pod = dict(service["spec"]["predictor"])
    assert pod.pop("minReplicas") <= pod.pop("maxReplicas")
    for version in ("1.29", kubernetes_validate.latest_version()):
        kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": pod}, version, strict=True)
    container, = pod["containers"]
    assert container["name"] == "kserve-container" and "[mpi,serve]" in DOCKERFILE
    words = [*container["command"], *container["args"]]
    options = cli.command_parser("serve").parse_args(words[1:])
    assert words[0] == "trireme" and options.host == "0.0.0.0" and options.drain < pod["terminationGracePeriodSeconds"]
    ports = [port["containerPort"] for port in container["ports"]]
    assert ports == [options.port] == list({container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")})
    assert [container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")] == ["/v2/health/live", "/v2/health/ready"]
    assert [mount["name"] for mount in container["volumeMounts"]] == [volume["name"] for volume in pod["volumes"]]
    assert any(options.model.startswith(f"{mount['mountPath']}/") for mount in container["volumeMounts"])


# -- Docker ----------------------------------------------------------------------------------------------------------


def test_the_dockerfile_has_no_finding_of_its_linter():
    program = Path(sys.executable).with_name("hadolint")
    if not program.exists():
        pytest.skip("no hadolint")
    done = subprocess.run([program, "--no-color", DEPLOY / "Dockerfile"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and not done.stdout, done.stdout + done.stderr


def test_the_dockerfile_names_files_of_this_tree():
    for source in re.findall(r"^COPY (?!--from)(?:--\S+ )?(\S+) \S+$", DOCKERFILE, re.M):
        assert (ROOT / source).exists(), source
    assert re.search(r"trireme launch .* (examples/\S+)", DOCKERFILE)[1] and (ROOT / "examples/recognize_digits/demo.py").exists()


@pytest.fixture
def buildah(tmp_path):
    """A function that runs buildah, which builds images without a daemon, with images and containers of its own."""
    for program in ("buildah", "mmdebstrap"):
        if not shutil.which(program):
            pytest.skip(f"no {program}: deploy/setup.sh image")
    if os.geteuid():
        pytest.skip("a root file system of Debian is made by root")

    def run(*words):
        done = subprocess.run(["buildah", "--root", tmp_path / "root", "--runroot", tmp_path / "run", "--storage-driver", "vfs",
                               *map(str, words)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3000, check=False)
        assert done.returncode == 0, done.stdout[-5000:]
        return done.stdout.strip()

    yield run
    run("rm", "--all")


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_the_image_is_built_and_trains(buildah, tmp_path):
    """On a Debian 12 made of its packages, in the place of the image of that name, which a registry has."""
    subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "bookworm", tmp_path / "debian.tar"], check=True, timeout=900)
    base = buildah("from", "scratch").splitlines()[-1]
    buildah("add", base, tmp_path / "debian.tar", "/")
    if certificates := ssl.get_default_verify_paths().cafile:          # which this machine trusts
        buildah("copy", base, certificates, "/opt/certificates.crt")
        (tmp_path / "pip.conf").write_text("[global]\ncert = /opt/certificates.crt\n")
        buildah("copy", base, tmp_path / "pip.conf", "/etc/pip.conf")
    buildah("commit", "--quiet", base, f"docker.io/library/{re.search(r'FROM (debian:[^ ]+)', DOCKERFILE)[1]}")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout.split("\0")
    for file in filter(None, files):                   # as a fresh clone has them
        (tmp_path / "tree" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / "tree" / file)
    buildah("bud", "--isolation", "chroot", "--pull-never", "--file", tmp_path / "tree" / "deploy" / "Dockerfile", "--tag", "trireme",
            tmp_path / "tree")
    container = buildah("from", "--pull-never", "localhost/trireme").splitlines()[-1]
    command = re.search(r"trireme (trireme launch .*)$", DOCKERFILE, re.M)[1]
    said = buildah("run", "--isolation", "chroot", container, "--", "sh", "-c",
                   f"id -u; cat /etc/debian_version; trireme doctor && {command}")
    assert re.match(r"1000\n12\.\d+\n", said) and "ways between 2 ranks, all bytes right" in said, said
    assert float(re.search(r"test accuracy: ([\d.]+) %", said)[1]) > 90, said


# -- Slurm, Spack, packages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", ["job.sbatch", "setup.sh", "wheel.sh"])
def test_scripts_are_programs_of_bash(script):
    done = subprocess.run(["bash", "-n", DEPLOY / script], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr


@pytest.fixture
def recipe(monkeypatch):
    """What the recipe of Spack says: its versions and dependencies, by a stand-in of Spack's words."""
    said = {"version": [], "depends_on": [], "license": []}
    words = types.ModuleType("spack.package")
    for name, found in said.items():
        setattr(words, name, lambda text, *more, _found=found, **options: _found.append((text, options)))
    words.PythonPackage = type("PythonPackage", (), {})
    monkeypatch.setitem(sys.modules, "spack", types.ModuleType("spack"))
    monkeypatch.setitem(sys.modules, "spack.package", words)
    (path,) = (DEPLOY / "spack").rglob("package.py")
    scope: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return said, scope["Trireme"]


def test_the_recipe_of_spack_takes_what_the_package_takes(recipe):
    said, package = recipe
    version = re.search(r"project\(trireme VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert [text for text, _ in said["version"]] == [version] and said["license"][0][0] == PROJECT["license"]
    taken = {text.split("@")[0].split()[0]: (text, options) for text, options in said["depends_on"]}
    for needed in (one for one in PROJECT["dependencies"] if not one.startswith("scipy-openblas32")):
        name, least = re.fullmatch(r"([\w-]+)>=([\d.]+)", needed).groups()
        text, options = taken[f"py-{name}"]
        assert f"@{least}:" in text and set(options["type"]) == {"build", "run"}, text
    assert f"@{PROJECT['requires-python'].removeprefix('>=')}:" in taken["python"][0]
    assert {"openblas", "openmpi", "protobuf-c", "zlib-api", "cmake", "ninja", "c"} <= set(taken)
    settings = package.config_settings(None, {"mpi": types.SimpleNamespace(mpicc="/opt/mpi/bin/mpicc")}, "/opt")
    options = {name.removeprefix("cmake.define.") for name in settings}
    text = (ROOT / "CMakeLists.txt").read_text()
    assert options and all(re.search(rf"(?:option|set)\({option}\b", text) for option in options), options


def packages_missing():
    """The packages that setup.sh may ask for, by their names in Debian."""
    text = (DEPLOY / "setup.sh").read_text()
    asked = re.findall(r"\|\| echo '?([\w =.*-]+?)'?(?: ;;.*)?$", text, re.M)
    return [name for found in asked for name in found.split()]


@pytest.mark.parametrize("program, line", [
    ("dnf", "dnf install gcc make protobuf-c-compiler protobuf-c-devel zlib-devel"),
    ("zypper", "zypper install gcc make protobuf-c libprotobuf-c-devel zlib-devel"),
    ("pacman", "pacman -S base-devel protobuf-c zlib"),
])
def test_other_systems_are_told_their_packages(program, line, tmp_path):
    """Where there is no apt-get, setup.sh names the packages of the system that it is on."""
    text = (DEPLOY / "setup.sh").read_text()
    functions = text[text.index("declare -A elsewhere"):text.index("make_environment()")]
    (tmp_path / program).write_text("#!/bin/sh\n")
    (tmp_path / program).chmod(0o755)
    for tool in ("cut", "awk", "paste", "id"):
        (tmp_path / tool).symlink_to(next(path for path in (Path("/usr/bin", tool), Path("/bin", tool)) if path.exists()))
    script = (f"die() {{ echo \"$*\"; exit 1; }}\n{functions}\ninstall_packages build-essential protobuf-c-compiler libprotobuf-c-dev "
              "zlib1g-dev")
    done = subprocess.run(["/bin/bash", "-c", script], capture_output=True, text=True, timeout=30, check=False, env={"PATH": str(tmp_path)})
    assert done.returncode == 1 and done.stdout.endswith(f": {line}\n"), done.stdout + done.stderr
    named = re.findall(r"^    \[\'?([\w=.*-]+)\'?\]=", functions, re.M)
    assert packages_missing() and set(packages_missing()) <= set(named)
    assert set(line.split()[2:]) <= set(re.findall(r"[\w-]+", (ROOT / "docs" / "clusters.md").read_text()))
