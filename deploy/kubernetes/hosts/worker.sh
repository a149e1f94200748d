#!/bin/sh
# A worker's pod: an sshd without privileges, for the leader's key alone, by which mpirun starts ranks.
set -eu
rm -f /tmp/host_key /tmp/host_key.pub
ssh-keygen -q -t ed25519 -N '' -f /tmp/host_key
exec /usr/sbin/sshd -D -e -f /dev/null -p "${SSH_PORT:-2222}" -h /tmp/host_key -o PidFile=none \
    -o AuthorizedKeysFile="${SSH_KEYS:-/etc/linnet-ssh}/id.pub" -o StrictModes=no \
    -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no
