#!/bin/sh
# What a boot does to interfaces that stay: they lose their MTU, and their managers configure them again.
set -eu
for name in fab0 fab1; do
    ip link set "$name" mtu 1500
done
if [ -e /etc/network/interfaces.d/fabric ]; then
    ifdown fab0
    ifup fab0
    nmcli connection down fabric
    nmcli connection up fabric
else
    systemctl restart systemd-networkd
    networkctl reconfigure fab0 fab1
fi
