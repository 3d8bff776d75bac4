#!/bin/sh
# kubernetes_faults.sh - an API server and its etcd that are killed, stopped and cut off.
. "$(dirname "$0")/../harness/lib.sh"
. "$(dirname "$0")/kubernetes.lib"
. "$(dirname "$0")/../live/faults.lib"
# shellcheck disable=SC2034 # For faults.lib.
long=90 short=6 line_ttl=15 line_hows=KILL # An API server takes up to half a minute to start again.
kube_need
kube_start || t_done

kube_faults_of_one
faults_one "$kube_port"

t_case "etcd stands still behind the API server: the term ends in time, and goes on later"
candidate ada behind "$(url "$kube_port")" 6s
candidate bob behind "$(url "$kube_port")" 6s
until_acted behind 0
# shellcheck disable=SC2154 # etcd_start sets it.
hurt kill -STOP "$pid_kube"
until_ms $((hurt_at + 7000))
t_promise "nobody acts beyond the TTL" [ "$(acted_at behind)" -le $((hurt_at + 6000)) ]
kill -CONT "$pid_kube"
until_acted behind "$token" 60
end_all
t_promise "never two at once, tokens rise" apart behind
t_done
