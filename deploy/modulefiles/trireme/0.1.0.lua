-- A module of Lmod for an installation in a virtual environment or under a prefix. Copy it to a folder of your MODULEPATH, under the installed
-- version's number, and adapt `root`:
--
--   python3 -m venv /opt/trireme/0.1.0 && /opt/trireme/0.1.0/bin/pip install '.[mpi]'        # in the clone
--   module use deploy/modulefiles && module load trireme && trireme doctor
local root = pathJoin("/opt/trireme", myModuleVersion())

help([[Trireme trains deep-learning models on clusters of CPU machines.

    trireme launch --servers 2 --trainers 4 train.py      in an allocation of Slurm, or on this host
    man trireme]])
whatis("Name: Trireme")
whatis("Version: " .. myModuleVersion())
whatis("Description: Deep learning on clusters of CPU machines: parameter servers over MPI")

conflict("trireme")
-- With the site's Open MPI in the place of the extra `mpi`, name its module here, the one that Trireme was built with:
-- depends_on("openmpi")
prepend_path("PATH", pathJoin(root, "bin"))
prepend_path("MANPATH", pathJoin(root, "share", "man"))
append_path("MANPATH", "")                                -- the system's pages stay
prepend_path("XDG_DATA_DIRS", pathJoin(root, "share"))    -- where bash looks for completions
setenv("TRIREME_VENV", root)                              -- for deploy/job.sbatch
