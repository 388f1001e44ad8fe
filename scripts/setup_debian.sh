#!/bin/sh
# Installs what scripts/bare needs to make its Debian root. It needs root, and a Debian or a system made from it.
set -eu
if ! command -v debootstrap >/dev/null || [ ! -e /usr/share/keyrings/debian-archive-keyring.gpg ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap debian-archive-keyring
fi
