# A recipe of Spack, which builds the tree that it stands in:  spack repo add deploy/spack && spack dev-build trireme@0.1.0
from spack.package import *


class Trireme(PythonPackage):
    """Deep learning on clusters of CPU machines: programs of operators, parameter servers over MPI."""

    license("Apache-2.0")

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("py-scikit-build-core@0.11:", type="build")
    depends_on("py-cffi@1.17:", type=("build", "run"))
    depends_on("py-numpy@1.26:", type=("build", "run"))
    depends_on("cmake@3.26:", type="build")
    depends_on("ninja", type="build")
    depends_on("protobuf-c", type="build")
    depends_on("openblas threads=none", type=("link", "run"))
    depends_on("openmpi@4.1:5", type=("build", "link", "run"))
    depends_on("zlib-api")

    def config_settings(self, spec, prefix):
        return {"cmake.define.TR_SYSTEM_OPENBLAS": "ON", "cmake.define.TR_MPI": spec["mpi"].mpicc}
