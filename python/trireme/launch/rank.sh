# Started by mpirun in the place of a rank's program, which it becomes: sh rank.sh PROGRAM ARGUMENT...
#
# It puts the pipes of pipes.py in the place of descriptors 1 and 2. A pipe that is opened for reading and writing waits for no reader,
# and nor does a second opening for writing then. It gives LD_PRELOAD back as the user had it: mpirun alone has more there.
out=$TRIREME_JOB_FOLDER/stdout.$OMPI_COMM_WORLD_RANK
err=$TRIREME_JOB_FOLDER/stderr.$OMPI_COMM_WORLD_RANK
if [ -p "$out" ] && [ -p "$err" ]; then
    exec 3<>"$out" 4<>"$err" >"$out" 2>"$err" 3<&- 4<&-
fi
if [ -n "${TRIREME_PRELOAD+set}" ]; then
    LD_PRELOAD=$TRIREME_PRELOAD
    unset TRIREME_PRELOAD
    [ -n "$LD_PRELOAD" ] || unset LD_PRELOAD
fi
exec "$@"
