#!/bin/sh
# singleton-worker.sh - one worker at a time works off a table in PostgreSQL, and a worker that was
# paused past its term cannot write any more: the table of the results refuses its token.
#
# Once:
#     psql "$DATABASE" -c 'CREATE TABLE jobs (id serial PRIMARY KEY)'
#     psql "$DATABASE" -c 'CREATE TABLE results (job integer PRIMARY KEY, token numeric)'
#     tenure fence install --at "$DATABASE" --table results --resource results
# On every host:
#     tenure run --store "$DATABASE" --fence "$DATABASE#results" worker -- ./singleton-worker.sh
#
# The role of the workers needs idle_in_transaction_session_timeout: docs/fencing.md says why.
set -eu

# Check and effect are one transaction. admit refuses a token that is no longer the highest, and the
# trigger of the table refuses a write that comes without admit.
one_job="BEGIN;
DO \$\$ BEGIN PERFORM tenure_fence.admit('results', $TENURE_TOKEN); END \$\$;
INSERT INTO results SELECT min(id), $TENURE_TOKEN FROM jobs
    WHERE id NOT IN (SELECT job FROM results) HAVING count(*) > 0 RETURNING job;
COMMIT;"

while :; do
    job=$(psql -XqAt -v ON_ERROR_STOP=1 "$DATABASE" -c "$one_job")
    if [ -n "$job" ]; then
        echo "job $job is done"
    else
        sleep 0.2
    fi
done
