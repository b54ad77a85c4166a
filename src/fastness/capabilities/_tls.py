"""
Whose certificates are believed.
"""

from __future__ import annotations

import os
import ssl

from fastness.errors import AdapterError

__all__ = ["tls_context"]

#: Where systems keep the certificates that they trust, where OpenSSL was not built to look.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def tls_context(trust: str | None) -> ssl.SSLContext:
    """Certificates and names are verified; SSL_CERT_FILE, SSL_CERT_DIR and SSLKEYLOGFILE are not read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if trust is None:
        # The paths that are compiled in: set_default_verify_paths would let the environment replace them.
        paths = ssl.get_default_verify_paths()
        trust = next(filter(os.path.isfile, (paths.openssl_cafile, *_BUNDLES)), None)
    try:
        if trust is None:
            raise FileNotFoundError
        context.load_verify_locations(cafile=trust)
    except (OSError, ssl.SSLError):
        raise AdapterError("this host has no certificates to verify servers with") from None
    return context
