#!/bin/bash
# every_example_held.sh - what the examples of every_example.sh do while another process holds the
# lease.
EXAMPLE_STATE=held
# shellcheck source=tests/live/every_example.sh
. "${TENURE_ROOT:-$(dirname "$0")/../..}/tests/live/every_example.sh"
