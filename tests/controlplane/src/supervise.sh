# supervise LOG MARKER PROGRAM ARGUMENT...
# Runs a program until it ends, or until standard input ends because the process that started this script has ended.
# Prints the program's process id. MARKER exists as long as the program may be running.
log=$1 marker=$2
shift 2
# The kernel sends SIGHUP to a process group with a stopped process when the process that started it has ended.
trap '' HUP
exec 3<&0
: >"$marker"
"$@" </dev/null >>"$log" 2>&1 3<&- &
server=$!
(
    while read -r _ <&3; do :; done
    kill -TERM "$server"
    kill -CONT "$server" # a stopped process cannot end
    tries=0
    while kill -0 "$server" && [ "$tries" -lt 30 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    kill -KILL "$server"
) >/dev/null 2>&1 &
watcher=$!
echo "$server"
exec >/dev/null 2>&1
wait "$server"
code=$?
kill "$watcher"
rm -f "$marker"
exit "$code"
