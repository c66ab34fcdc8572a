"""How a client secures its connections: TLS and SASL, by the names of Kafka's client properties.

    properties.py  reads a file of properties, as the tools of Kafka take it
    jaas.py        reads the value of `sasl.jaas.config`
    settings.py    `Security`: the checked properties
    tls.py         certificates and keys; errors of TLS in words
    mechanisms.py  the messages of PLAIN, SCRAM and OAUTHBEARER
    scram.py       SCRAM, as RFC 5802 has it
    tokens.py      the tokens of OAUTHBEARER

Standard library only. A library for SCRAM is not used: those in the registry prepare passwords by SASLprep,
which Kafka does not, so that a password with letters such as "ª" would be refused.
"""

from headgate.client.security.problem import SecurityProblem
from headgate.client.security.properties import read_properties
from headgate.client.security.settings import NOT_SECURED, Security, is_of_security

__all__ = ["NOT_SECURED", "Security", "SecurityProblem", "is_of_security", "read_properties"]
