#!/usr/bin/env bash
# Prepare a Debian or Ubuntu for working on Trireme, starting from nothing but git, make and python3.
#
#   deploy/setup.sh            compiler, protobuf-c, cmocka; .venv with requirements/test.txt
#   deploy/setup.sh demo       of that only what `make demo` takes: no cmocka, requirements/examples.txt
#   deploy/setup.sh fuzz       and clang
#   deploy/setup.sh hosts      and what tests of several hosts take: namespaces and an ssh server
#   deploy/setup.sh slurm      and Slurm, for tests of jobs on several of its nodes; they take the part hosts, too
#   deploy/setup.sh image      and what builds an image without a daemon, for `make image-test`
#   deploy/setup.sh prometheus and Prometheus with promtool, for tests of deploy/prometheus and deploy/grafana
#   deploy/setup.sh trackers   and MLflow and Weights & Biases (requirements/trackers.txt), 300 MB
#   deploy/setup.sh mpi        and the system's Open MPI 4.1, under which jobs are tested, too; .venv's 5 stays the one that is used
#
# In a container that belongs to root 'hosts' and 'mpi' come by themselves, or are left out where they cannot be had. Elsewhere they are to
# be asked for, since installing an ssh server starts it.
# Only what is missing is installed, so a second run changes nothing. System packages need root or sudo;
# where they are all there, neither is asked for. PYTHON names another Python than python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-python3}

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

has_environment() { .venv/bin/python -m pip --version >/dev/null 2>&1; }
has_header() { echo "#include <$1>" | cc -E -x c - >/dev/null 2>&1; }
has_cmocka() {
    printf '#include <%s>\n' stdarg.h stddef.h setjmp.h stdint.h cmocka.h | cc -E -x c - >/dev/null 2>&1
}
has_python_header() {
    "$python" -c 'import os, sys, sysconfig as s; sys.exit(not os.path.exists(s.get_path("include") + "/Python.h"))'
}
can_fuzz() {
    local program status=0
    program=$(mktemp)
    echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return d && n ? 0 : 0; }' |
        clang -fsanitize=fuzzer,address -x c - -o "$program" >/dev/null 2>&1 || status=1
    rm -f "$program"
    return $status
}

is_container_of_root() { [ "$(id -u)" = 0 ] && [ ! -d /run/systemd/system ]; }

# Of those tests that are left out where they cannot run.
missing_test_packages() {
    case " $* " in *" hosts "*)
        [ -x /usr/sbin/sshd ] || echo openssh-server
        command -v ssh >/dev/null || echo openssh-client
        command -v ip >/dev/null && command -v tc >/dev/null || echo iproute2
        command -v unshare >/dev/null && command -v setpriv >/dev/null || echo util-linux ;;
    esac
    case " $* " in *" slurm "*)
        [ -x /usr/sbin/slurmctld ] || echo slurmctld
        [ -x /usr/sbin/slurmd ] || echo slurmd
        command -v srun >/dev/null || echo slurm-client
        [ -x /usr/sbin/munged ] || echo munge ;;
    esac
    case " $* " in *" image "*)
        command -v buildah >/dev/null || echo buildah
        command -v mmdebstrap >/dev/null || echo mmdebstrap
        command -v crun >/dev/null || command -v runc >/dev/null || echo crun ;;
    esac
    case " $* " in *" prometheus "*) command -v promtool >/dev/null && command -v prometheus >/dev/null || echo prometheus ;; esac
    case " $* " in *" mpi "*) [ -x /usr/bin/mpirun ] || echo 'openmpi-bin=4.1*' ;; esac
}

# The packages that are missing, judged by what they would bring: it may be there in another way.
missing_packages() {
    has_header stdio.h && command -v make >/dev/null || echo build-essential
    command -v protoc-c >/dev/null || echo protobuf-c-compiler
    has_header protobuf-c/protobuf-c.h || echo libprotobuf-c-dev
    has_header zlib.h || echo zlib1g-dev
    case " $* " in *" demo "*) ;; *) has_cmocka || echo libcmocka-dev ;; esac
    has_environment || "$python" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
    has_python_header || echo python3-dev
    case " $* " in *" fuzz "*) can_fuzz || echo clang libclang-rt-dev ;; esac
    missing_test_packages "$@"
}

# Debian's packages as other systems call them: Fedora and RHEL, openSUSE, Arch. A system that has one package for two names it twice.
declare -A elsewhere=(
    [build-essential]='gcc make|gcc make|base-devel'
    [protobuf-c-compiler]='protobuf-c-compiler|protobuf-c|protobuf-c'
    [libprotobuf-c-dev]='protobuf-c-devel|libprotobuf-c-devel|protobuf-c'
    [zlib1g-dev]='zlib-devel|zlib-devel|zlib'
    [libcmocka-dev]='libcmocka-devel|libcmocka-devel|cmocka'
    [python3]='python3|python3|python'
    [python3-venv]='python3|python3|python'
    [python3-dev]='python3-devel|python3-devel|python'
    [clang]='clang|clang|clang'
    [libclang-rt-dev]='compiler-rt|clang|compiler-rt'
    [openssh-server]='openssh-server|openssh-server|openssh'
    [openssh-client]='openssh-clients|openssh-clients|openssh'
    [iproute2]='iproute iproute-tc|iproute2|iproute2'
    [util-linux]='util-linux|util-linux|util-linux'
    [slurmctld]='slurm-slurmctld|slurm|slurm-llnl'
    [slurmd]='slurm-slurmd|slurm-node|slurm-llnl'
    [slurm-client]='slurm|slurm|slurm-llnl'
    [munge]='munge|munge|munge'
    [buildah]='buildah|buildah|buildah'
    [mmdebstrap]='mmdebstrap|mmdebstrap|mmdebstrap'
    [crun]='crun|crun|crun'
    [prometheus]='golang-github-prometheus|golang-github-prometheus-prometheus|prometheus'
    ['openmpi-bin=4.1*']='openmpi|openmpi4|openmpi'
)

# The command that installs Debian's packages $* on a system without apt-get.
command_elsewhere() {
    local which='' command='' name names=() found
    for found in 'dnf install:1' 'zypper install:2' 'pacman -S:3'; do
        command -v "${found%% *}" >/dev/null && command=${found%:*} && which=${found#*:} && break
    done
    [ "$command" ] || return 1
    for name; do names+=($(cut -d'|' -f"$which" <<<"${elsewhere[$name]:-$name|$name|$name}")); done
    echo "$command $(printf '%s\n' "${names[@]}" | awk '!seen[$0]++' | paste -sd' ')"
}

install_packages() {
    local as_root=() other
    if ! command -v apt-get >/dev/null; then
        other=$(command_elsewhere "$@") || die "no apt-get here; install the equivalents of: $*"
        die "no apt-get here; install these as root, and start this script again: $other"
    fi
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "neither root nor sudo; ask an administrator for: apt-get install $*"
        as_root=(sudo)
    fi
    say "installing system packages: $*"
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

make_environment() {
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "Python 3.11 or newer is needed; $python is $("$python" -V)"
    if ! has_environment; then
        say "making the environment .venv with $("$python" -V)"
        "$python" -m venv --clear .venv
    fi
    say "installing into .venv: $*"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "${@/#/--requirement=}"
}

requirements=requirements/test.txt
stamp=setup.stamp
for part in "$@"; do
    case $part in
        demo) requirements=requirements/examples.txt stamp=demo.stamp ;;
        trackers) requirements=requirements/trackers.txt ;;
        fuzz|hosts|slurm|image|prometheus|mpi) ;;
        *) die "unknown part '$part': demo, fuzz, hosts, slurm, image, prometheus, trackers or mpi" ;;
    esac
done

command -v "$python" >/dev/null || install_packages python3
mapfile -t packages < <(missing_packages "$@" | tr ' ' '\n')
[ ${#packages[@]} = 0 ] || install_packages "${packages[@]}"
if [ $stamp = setup.stamp ] && is_container_of_root; then
    for part in hosts mpi; do
        mapfile -t packages < <(missing_test_packages $part)
        [ ${#packages[@]} = 0 ] || (install_packages "${packages[@]}") || say "tests of '$part' are left out"
    done
fi
make_environment "$requirements"
touch .venv/$stamp
say "ready"
