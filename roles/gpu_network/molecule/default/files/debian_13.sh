#!/bin/sh
# systemd-networkd has fab0 and slim0, netplan fab1 (with networkd behind it). ufw is on.
set -eu
number=0
for name in fab0 slim0; do
    cat > "/etc/systemd/network/10-$name.network" <<NETWORK
[Match]
Name=$name
[Network]
Address=10.77.$number.1/24
LinkLocalAddressing=no
NETWORK
    number=2
done
cat > /etc/netplan/10-fabric.yaml <<'NETPLAN'
network:
  version: 2
  renderer: networkd
  ethernets:
    fab1:
      addresses: [10.77.1.1/24]
      link-local: []
NETPLAN
chmod 600 /etc/netplan/10-fabric.yaml
netplan generate
systemctl restart systemd-networkd
# The container's own chains are read-only for its module loader: IPv4 is enough.
sed -i 's/^IPV6=.*/IPV6=no/' /etc/default/ufw
ufw allow 22/tcp
ufw --force enable
