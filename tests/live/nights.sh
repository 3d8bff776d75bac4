#!/bin/bash
# nights.sh - a nightly job on five hosts: 50 nights with --hold and 50 with --every, each host with
# a state of its own and a clock that is up to 2 s late. One run per night; a runner that is killed
# costs at most its own night.
#
# A night is short here: ten jobs on several stores have five nights each, at the same time.
# shellcheck source=tests/harness/lib.sh
. "$(dirname "$0")/../harness/lib.sh"
# shellcheck source=tests/live/tenured.lib
. "$(dirname "$0")/tenured.lib"
# shellcheck source=tests/live/redis.inc
. "$(dirname "$0")/redis.inc"
# shellcheck source=tests/live/postgres.inc
. "$(dirname "$0")/postgres.inc"
# shellcheck source=tests/live/etcd.lib
. "$(dirname "$0")/etcd.lib"

# report.sh NAME NIGHT [killed]: a line at the start and one at the end. If the night's runner is to
# be killed, the first one of the night kills its own: the guardian's parent.
cat >"$t_dir/report.sh" <<END
#!/bin/sh
echo "\$1 \$2" >>"$t_dir/began"
if [ "\${3:-}" = killed ] && mkdir "$t_dir/killed-\$1-\$2" 2>/dev/null; then
    runner=\$(sed -n 's/^PPid:[^0-9]*//p' "/proc/\$PPID/status")
    kill -KILL "\$runner"
    exec sleep 60
fi
echo "\$1 \$2" >>"$t_dir/ended"
END
chmod +x "$t_dir/report.sh"

ended() { grep -c "^$1 $2\$" "$t_dir/ended"; }

# night URL NAME NUMBER HOW KILLED: the five hosts of one job.
night() {
    local host
    for host in 1 2 3 4 5; do
        mkdir -p "$t_dir/host$host"
        {
            sleep "$((RANDOM % 2)).$((RANDOM % 10))" # The skew of their clocks.
            # shellcheck disable=SC2086 # Words.
            env -i HOME="$t_dir/host$host" PATH="$PATH" TENURE_FENCE=none "$tenure" run \
                --store "$1" --ttl 8s --id "host$host" --quiet --contain tree $4 "$2" -- \
                "$t_dir/report.sh" "$2" "$3" $5 >>"$t_dir/said.$2" 2>&1
        } 2>/dev/null &
        hosts="$hosts $!"
    done
}

is_due() { [ "$(now_ms)" -ge "$over_at" ]; }

# nights APART HOW: of all $jobs, NAME=URL; two nights are APART ms. In each night the runner of a
# third of them is killed.
nights() {
    local job night killed
    : >"$t_dir/began"
    : >"$t_dir/ended"
    for night in 1 2 3 4 5; do
        hosts=
        index=0
        for job in $jobs; do
            index=$((index + 1))
            killed=
            [ $(((index + night) % 3)) -ne 0 ] || killed=killed
            night "${job#*=}" "${job%%=*}" $night "$2" "$killed"
        done
        # shellcheck disable=SC2086 # A list of numbers.
        wait $hosts
        over_at=$(($(now_ms) + $1))
        for job in $jobs; do
            after_night "${job#*=}" "${job%%=*}" $night
        done
        [ $night -eq 5 ] || t_check "the night ends" until_true 60 is_due
    done
}

t_case "servers"
tenured_start
jobs="s1=sqlite:$t_dir/a.db s2=sqlite:$t_dir/b.db s3=sqlite:$t_dir/c.db s4=sqlite:$t_dir/d.db"
jobs="$jobs s5=sqlite:$t_dir/e.db t1=$(url "$port") t2=$(url "$port") t3=unix:$socket"
jobs="$jobs t4=unix:$socket t5=$(url "$port")"

after_night() {
    local count
    count=$(ended "$2" "$3")
    if [ -e "$t_dir/killed-$2-$3" ]; then
        kills=$((kills + 1))
        t_promise "$2, night $3, its runner killed: $count" [ "$count" -le 1 ]
    else
        t_promise "$2, night $3: $count" [ "$count" -eq 1 ]
        total=$((total + 1))
    fi
}

t_case "--hold: one run in each of 50 nights, and the night after a kill runs"
kills=0 total=0
nights 9000 "--skip-if-held --hold 12s"
t_check "50 nights: $total and $kills with a kill" [ $((total + kills)) -eq 50 ]
t_check "runners were killed: $kills" [ $kills -ge 10 ]

rm -rf "$t_dir"/killed-*
if command -v redis-server >/dev/null && rd_start 1; then
    jobs=${jobs/s5=*.db t1/r1=$(rd_url 1) t1}
fi
if pg_find && pg_init && pg_start; then
    jobs=${jobs/s4=*.db r1/p1=postgres:\/\/tester@127.0.0.1:$pg_port\/postgres?sslmode=disable r1}
fi
if command -v etcd >/dev/null && command -v etcdctl >/dev/null; then
    etcd_start one
    jobs=${jobs/t5=*/e1=etcd:\/\/127.0.0.1:$port_one\/t}
fi

after_night() {
    local count
    count=$(ended "$2" "$3")
    t_promise "$2, night $3: $count" [ "$count" -eq 1 ]
    total=$((total + count))
    [ ! -e "$t_dir/killed-$2-$3" ] || kills=$((kills + 1))
}

t_case "--every: one run in each of 50 nights, also when its runner is killed: $jobs"
kills=0 total=0
nights 20000 "--every 20s"
t_check "50 nights: $total" [ $total -eq 50 ]
t_check "runners were killed: $kills" [ $kills -ge 10 ]

t_done
