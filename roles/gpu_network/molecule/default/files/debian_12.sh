#!/bin/sh
# ifupdown has fab0 and slim0, NetworkManager fab1. nftables drops what it does not know, SSH apart.
set -eu
cat > /etc/network/interfaces <<'INTERFACES'
source /etc/network/interfaces.d/*
INTERFACES
mkdir -p /etc/network/interfaces.d
cat > /etc/network/interfaces.d/fabric <<'INTERFACES'
iface fab0 inet static
    address 10.77.0.1/24
iface slim0 inet static
    address 10.77.2.1/24
INTERFACES
ifup fab0 slim0
cat > /etc/NetworkManager/conf.d/10-test.conf <<'CONFIGURATION'
[keyfile]
unmanaged-devices=except:interface-name:fab1
CONFIGURATION
# NetworkManager leaves virtual interfaces alone unless udev says otherwise, and containers have no udev.
systemctl start NetworkManager
nmcli device set fab1 managed yes
nmcli connection add type ethernet ifname fab1 con-name fabric ipv4.method manual ipv4.addresses 10.77.1.1/24 \
    ipv6.method disabled
nmcli connection up fabric
cat > /etc/nftables.conf <<'RULES'
#!/usr/sbin/nft -f
flush ruleset

table inet filter {
	chain input {
		type filter hook input priority 0; policy drop;
		ct state established,related accept
		iif lo accept
		tcp dport 22 accept
		icmp type echo-request accept
	}
}
RULES
nft --file /etc/nftables.conf
