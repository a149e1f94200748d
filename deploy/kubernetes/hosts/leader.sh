#!/bin/sh
# The leader's pod: waits for the workers and starts ranks on all of them. Arguments are linnet's.
# Of LeaderWorkerSet: LWS_LEADER_ADDRESS, <set>-<group>.<subdomain>.<namespace>, beside which worker i
# is <set>-<group>-<i>.<subdomain>.<namespace>; LWS_GROUP_SIZE, of pods. RANKS_PER_POD: 1 if not set.
set -eu
name=${LWS_LEADER_ADDRESS%%.*} domain=${LWS_LEADER_ADDRESS#*.}
slots=${RANKS_PER_POD:-1} port=${SSH_PORT:-2222}
options="-p $port -i ${SSH_KEYS:-/etc/linnet-ssh}/id -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
hosts=$(hostname):$slots i=1
while [ "$i" -lt "$LWS_GROUP_SIZE" ]; do
    worker=$name-$i.$domain
    # shellcheck disable=SC2086 # several options
    until ssh $options -o ConnectTimeout=5 "$worker" true; do sleep 2; done
    hosts=$hosts,$worker:$slots
    i=$((i + 1))
done
exec mpirun -n $((LWS_GROUP_SIZE * slots)) --host "$hosts" --bind-to none --mca plm_rsh_args "$options" linnet "$@"
