#!/bin/sh
# fab0 and fab1 lead to peers that take 9000 bytes, slim0 to one that takes 1500 and loses what is larger.
set -eu
ip netns add peer
number=0
for name in fab0 fab1 slim0; do
    ip link add "$name" type veth peer name "$name-far"
    ip link set "$name-far" netns peer
    ip -netns peer address add "10.77.$number.2/24" dev "$name-far"
    [ "$name" = slim0 ] || ip -netns peer link set "$name-far" mtu 9000
    ip -netns peer link set "$name-far" up
    number=$((number + 1))
done
