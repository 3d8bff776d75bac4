#!/bin/sh
# etcd.sh - candidates on one etcd, hurt at random: their commands never overlap; see faults.lib.
TENURE_ROOT=${TENURE_ROOT:-$(cd "$(dirname "$0")/../../.." && pwd)}
# shellcheck source=tests/harness/lib.sh
. "$TENURE_ROOT/tests/harness/lib.sh"
# shellcheck source=tests/live/etcd.lib
. "$TENURE_ROOT/tests/live/etcd.lib"
# shellcheck source=tests/live/faults.lib
. "$TENURE_ROOT/tests/live/faults.lib"
etcd_need
etcd_start one || t_done
etcd_faults_of_one
# shellcheck disable=SC2154 # etcd_start sets it.
chaos_runs "$port_one"
t_done
