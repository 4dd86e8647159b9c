"""The subject of a certificate in the form of Java's X500Principal.getName() (RFC 2253).

The last part of the name comes first, and there are no spaces: `CN=host,OU=team,O=Org,C=DE`.
"""

from __future__ import annotations

from typing import Final

from kwire.security.tls.der import DerError, Element, children, object_identifier, read_element

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The keywords of RFC 2253.  For any other attribute Java writes its number and a hex value."""

_TEXT_TAGS: Final = frozenset((12, 19, 20, 22, 27, 28, 30))
"""UTF8, Printable, T61, IA5, General, Universal and BMP strings."""

_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANK: Final = " \r"
_VERSION_TAG = 0xA0
_SUBJECT = 4  # after serial number, algorithm, issuer and validity


def subject_name(certificate: bytes) -> str:
    """Return the subject of a valid certificate in DER.  Raises DerError."""
    signed = read_element(certificate, read_element(certificate, 0).start)
    fields = list(children(certificate, signed))
    if fields and fields[0].tag == _VERSION_TAG:
        del fields[0]
    if len(fields) <= _SUBJECT:
        raise DerError("the data is not a certificate")
    return distinguished_name(certificate, fields[_SUBJECT])


def distinguished_name(data: bytes, name: Element) -> str:
    """Return the text of an X.501 Name, which is the element `name` of `data`."""
    parts = [
        "+".join(_attribute(data, attribute) for attribute in children(data, part))
        for part in children(data, name)
    ]
    return ",".join(reversed(parts))


def _attribute(data: bytes, attribute: Element) -> str:
    """Return one attribute as `CN=name`; raises DerError.

    Attributes without a keyword or with a value that is no text are written as `#` and the DER
    bytes in hex.
    """
    parts = list(children(data, attribute))
    if len(parts) != 2:
        raise DerError("an attribute has no value")
    kind, value = parts
    number = object_identifier(kind.content(data))
    keyword = _KEYWORDS.get(number)
    if keyword is None or value.tag not in _TEXT_TAGS:
        return f"{keyword or number}=#{value.whole(data).hex()}"
    return f"{keyword}={_escaped(value.content(data).decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    """Return the text with RFC 2253's escapes, as Java writes them.

    Blanks are escaped at the beginning and the end only.
    """
    written = "".join(
        f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in text
    )
    lead = len(written) - len(written.lstrip(_BLANK))
    trail = len(written.rstrip(_BLANK))
    return "".join(
        f"\\{each}" if number < lead or number >= trail else each
        for number, each in enumerate(written)
    )
