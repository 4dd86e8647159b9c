"""The broker settings of TLS, SASL, principals and delegation tokens."""

from __future__ import annotations

from kwire.settings.definition import (
    HIGH,
    LOW,
    MEDIUM,
    PER_BROKER,
    Settings,
    boolean,
    double,
    integer,
    java_class,
    long,
    optional_integer,
    optional_string,
    password,
    short,
    string,
    strings,
)
from kwire.settings.effects import JAVA, PYTHON_TLS, SASL
from kwire.settings.validators import at_least, between, members, one_of, one_of_any_case


class TlsSettings(Settings):
    """The broker's certificates, and the certificates that it trusts."""

    ssl_allow_dn_changes = boolean(
        False,
        LOW,
        doc="Whether a new certificate may have another distinguished name than the one it "
        "replaces.",
    )
    ssl_allow_san_changes = boolean(
        False,
        LOW,
        doc="Whether a new certificate may lack alternative names that the one it replaces has.",
    )
    ssl_cipher_suites = strings(
        (),
        MEDIUM,
        members(),
        mode=PER_BROKER,
        doc="The allowed cipher suites, by Java's names; by default all that OpenSSL has. Python "
        "before 3.15 cannot disable suites of TLS 1.3; a connection that uses a suite that is "
        "not allowed is closed.",
    )
    ssl_client_auth = string(
        "none",
        MEDIUM,
        one_of("required", "requested", "none"),
        mode=PER_BROKER,
        doc="Whether the broker asks clients for a certificate: none, requested, or required. On a "
        "SASL_SSL listener it acts only if it is set for that listener.",
    )
    ssl_enabled_protocols = strings(
        ("TLSv1.2", "TLSv1.3"),
        MEDIUM,
        members(),
        mode=PER_BROKER,
        doc="The TLS versions that the broker serves: TLSv1.2 and TLSv1.3. Older versions may be "
        "listed and are never served.",
    )
    ssl_endpoint_identification_algorithm = string(
        "https",
        LOW,
        mode=PER_BROKER,
        doc="`https` compares the host name with the certificate of the other broker; empty accepts"
        " a certificate for any name.",
    )
    ssl_engine_factory_class = java_class(LOW, mode=PER_BROKER, effect=JAVA)
    ssl_key_password = password(
        MEDIUM,
        mode=PER_BROKER,
        doc="The password of the private key, if the key has one of its own.",
    )
    ssl_keymanager_algorithm = string("SunX509", MEDIUM, mode=PER_BROKER, effect=PYTHON_TLS)
    ssl_keystore_certificate_chain = password(
        MEDIUM,
        mode=PER_BROKER,
        doc="The broker's certificate and the certificates of its issuers, PEM.",
    )
    ssl_keystore_key = password(
        MEDIUM, mode=PER_BROKER, doc="The broker's private key, PEM, PKCS#8."
    )
    ssl_keystore_location = optional_string(
        MEDIUM,
        mode=PER_BROKER,
        doc="The file with the private key and the certificates. The broker reads it again when it "
        "changes.",
    )
    ssl_keystore_password = password(
        MEDIUM, mode=PER_BROKER, doc="The password of that file, if it is JKS or PKCS12."
    )
    ssl_keystore_type = string(
        "JKS",
        MEDIUM,
        mode=PER_BROKER,
        doc="The format of that file: PEM, JKS or PKCS12. The broker tells JKS from PKCS12 by the "
        "file itself.",
    )
    ssl_principal_mapping_rules = string(
        "DEFAULT", LOW, doc="Rules that turn the name in a client's certificate into its principal."
    )
    ssl_protocol = string(
        "TLSv1.3",
        MEDIUM,
        mode=PER_BROKER,
        doc="A TLS version. ssl.enabled.protocols says which versions the broker serves.",
    )
    ssl_provider = optional_string(MEDIUM, mode=PER_BROKER, effect=JAVA)
    ssl_secure_random_implementation = optional_string(LOW, mode=PER_BROKER, effect=PYTHON_TLS)
    ssl_trustmanager_algorithm = string("PKIX", MEDIUM, mode=PER_BROKER, effect=PYTHON_TLS)
    ssl_truststore_certificates = password(
        MEDIUM,
        mode=PER_BROKER,
        doc="The certificates of the issuers whose client certificates the broker trusts, PEM.",
    )
    ssl_truststore_location = optional_string(
        MEDIUM,
        mode=PER_BROKER,
        doc="The file with those certificates. The broker reads it again when it changes.",
    )
    ssl_truststore_password = password(
        MEDIUM, mode=PER_BROKER, doc="The password of that file. A JKS file can be read without it."
    )
    ssl_truststore_type = string(
        "JKS",
        MEDIUM,
        mode=PER_BROKER,
        doc="The format of that file: PEM, JKS or PKCS12, as for ssl.keystore.type.",
    )


class LoginSettings(Settings):
    """Logins of clients by SASL."""

    connection_failed_authentication_delay_ms = integer(
        100, LOW, at_least(0), doc="How long the broker delays its response to a failed login."
    )
    connections_max_reauth_ms = long(
        0, MEDIUM, doc="How long a SASL login is valid; 0 means for ever."
    )
    sasl_enabled_mechanisms = strings(
        ("GSSAPI",),
        MEDIUM,
        members(),
        mode=PER_BROKER,
        doc="The SASL mechanisms that clients may log in with: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 "
        "and OAUTHBEARER. Tokens of OAUTHBEARER are unsigned unless "
        "sasl.server.callback.handler.class says otherwise.",
    )
    sasl_jaas_config = password(
        MEDIUM,
        mode=PER_BROKER,
        doc="The users and secrets of a mechanism, as one line of JAAS. Set it as "
        "listener.name.LISTENER.MECHANISM.sasl.jaas.config.",
    )
    sasl_mechanism_controller_protocol = string(
        "GSSAPI",
        HIGH,
        doc="The SASL mechanism by which a broker logs in to KRaft controllers.",
    )
    sasl_mechanism_inter_broker_protocol = string(
        "GSSAPI",
        MEDIUM,
        mode=PER_BROKER,
        doc="The SASL mechanism by which a broker logs in to other brokers, with the name and "
        "password in that mechanism's sasl.jaas.config, or with a token for OAUTHBEARER.",
    )
    sasl_server_max_receive_size = integer(
        524_288,
        MEDIUM,
        doc="The largest request that a client may send before it has logged in, in bytes.",
    )


class TokenReadingSettings(Settings):
    """The check of OAUTHBEARER tokens that clients send."""

    sasl_oauthbearer_allow_unverified_audience = boolean(
        False,
        MEDIUM,
        doc="Whether signed tokens of any audience are valid if no expected one is set. A broker "
        "that needs one and has none does not start.",
    )
    sasl_oauthbearer_allow_unverified_issuer = boolean(
        False,
        MEDIUM,
        doc="Whether signed tokens of any issuer are valid if no expected one is set. A broker "
        "that needs one and has none does not start.",
    )
    sasl_oauthbearer_clock_skew_seconds = integer(
        30, LOW, doc="How far the clock of the token's issuer may differ from the broker's."
    )
    sasl_oauthbearer_expected_audience = strings(
        (),
        HIGH,
        members(),
        doc="The audiences that a signed token may be for. A token that names none of them is "
        "refused.",
    )
    sasl_oauthbearer_expected_issuer = optional_string(
        HIGH, doc="The issuer that a signed token must have."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = long(
        3_600_000, LOW, doc="How often the broker fetches the keys that sign tokens."
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = long(
        10_000,
        LOW,
        doc="How long the broker retries when it cannot fetch the keys. It uses the keys that it "
        "has meanwhile.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = long(
        100,
        LOW,
        doc="How long the broker waits before the first retry; each further wait is twice as long.",
    )
    sasl_oauthbearer_jwks_endpoint_url = optional_string(
        MEDIUM,
        doc="The location of the keys that sign tokens (JWKS): an http:, https: or file: URL. The "
        "broker reads a file again when it changes.",
    )
    sasl_oauthbearer_scope_claim_name = string(
        "scope", LOW, doc="The claim of a signed token that holds its scopes."
    )
    sasl_oauthbearer_sub_claim_name = string(
        "sub", LOW, doc="The claim of a signed token that holds the name of the principal."
    )
    sasl_server_callback_handler_class = java_class(
        MEDIUM,
        doc="How OAUTHBEARER checks tokens: Apache Kafka's OAuthBearerValidatorCallbackHandler for "
        "signed tokens, or its unsecured handler for unsigned ones.",
    )


class TokenGettingSettings(Settings):
    """The source of the OAUTHBEARER token by which a broker logs in to other brokers."""

    sasl_login_callback_handler_class = java_class(
        MEDIUM,
        doc="Apache Kafka's OAuthBearerLoginCallbackHandler is allowed for OAUTHBEARER between "
        "brokers, and changes nothing: a broker gets its tokens from "
        "sasl.oauthbearer.token.endpoint.url if that is set.",
    )
    sasl_login_refresh_window_factor = double(
        0.8,
        MEDIUM,
        mode=PER_BROKER,
        doc="The part of a token's lifetime after which a broker gets a new token for its logins at"
        " other brokers.",
    )
    sasl_oauthbearer_client_credentials_client_id = optional_string(
        MEDIUM,
        doc="The client id with which a broker requests a token; by default the option clientId of "
        "sasl.jaas.config.",
    )
    sasl_oauthbearer_client_credentials_client_secret = password(
        MEDIUM,
        doc="The password with which a broker requests a token; by default the option clientSecret "
        "of sasl.jaas.config.",
    )
    sasl_oauthbearer_scope = optional_string(
        MEDIUM,
        doc="The scope that a broker requests for its token; by default the option scope of "
        "sasl.jaas.config.",
    )
    sasl_oauthbearer_token_endpoint_url = optional_string(
        MEDIUM,
        doc="Where a broker gets the token for its logins at other brokers: a file: URL, or the "
        "http: or https: URL of a server that returns a token for client credentials. If it is "
        "not set the broker uses an unsigned token.",
    )


class SaslSettings(Settings, effect=SASL):
    """The other settings of SASL mechanisms."""

    sasl_client_callback_handler_class = java_class(MEDIUM)
    sasl_kerberos_kinit_cmd = string("/usr/bin/kinit", MEDIUM, mode=PER_BROKER)
    sasl_kerberos_min_time_before_relogin = long(60_000, MEDIUM, mode=PER_BROKER)
    sasl_kerberos_principal_to_local_rules = strings(
        ("DEFAULT",), MEDIUM, members(), mode=PER_BROKER
    )
    sasl_kerberos_service_name = optional_string(MEDIUM, mode=PER_BROKER)
    sasl_kerberos_ticket_renew_jitter = double(0.05, MEDIUM, mode=PER_BROKER)
    sasl_kerberos_ticket_renew_window_factor = double(0.8, MEDIUM, mode=PER_BROKER)
    sasl_login_class = java_class(MEDIUM)
    sasl_login_connect_timeout_ms = optional_integer(LOW)
    sasl_login_read_timeout_ms = optional_integer(LOW)
    sasl_login_refresh_buffer_seconds = short(300, MEDIUM, mode=PER_BROKER)
    sasl_login_refresh_min_period_seconds = short(60, MEDIUM, mode=PER_BROKER)
    sasl_login_refresh_window_jitter = double(0.05, MEDIUM, mode=PER_BROKER)
    sasl_login_retry_backoff_max_ms = long(10_000, LOW)
    sasl_login_retry_backoff_ms = long(100, LOW)
    sasl_oauthbearer_assertion_algorithm = string(
        "RS256", MEDIUM, one_of_any_case("ES256", "RS256")
    )
    sasl_oauthbearer_assertion_claim_aud = optional_string(MEDIUM)
    sasl_oauthbearer_assertion_claim_exp_seconds = integer(300, LOW, between(0, 86_400))
    sasl_oauthbearer_assertion_claim_iss = optional_string(MEDIUM)
    sasl_oauthbearer_assertion_claim_jti_include = boolean(False, MEDIUM)
    sasl_oauthbearer_assertion_claim_nbf_seconds = integer(60, LOW, between(0, 3600))
    sasl_oauthbearer_assertion_claim_sub = optional_string(MEDIUM)
    sasl_oauthbearer_assertion_file = optional_string(MEDIUM)
    sasl_oauthbearer_assertion_private_key_file = optional_string(MEDIUM)
    sasl_oauthbearer_assertion_private_key_passphrase = password(MEDIUM)
    sasl_oauthbearer_assertion_template_file = optional_string(MEDIUM)
    sasl_oauthbearer_jwt_retriever_class = java_class(
        MEDIUM, "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever"
    )
    sasl_oauthbearer_jwt_validator_class = java_class(
        MEDIUM, "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"
    )


class TokenSettings(Settings):
    """Delegation tokens (KIP-48)."""

    delegation_token_expiry_check_interval_ms = long(
        3_600_000, LOW, at_least(1), doc="How often the broker deletes expired delegation tokens."
    )
    delegation_token_expiry_time_ms = long(
        86_400_000,
        MEDIUM,
        at_least(1),
        doc="How long a delegation token is valid unless it is renewed.",
    )
    delegation_token_max_lifetime_ms = long(
        604_800_000,
        MEDIUM,
        at_least(1),
        doc="The longest time that a delegation token can be valid, renewals included.",
    )
    delegation_token_secret_key = password(
        MEDIUM,
        doc="The secret from which delegation tokens are made, the same on all brokers. If it is "
        "not set there are no delegation tokens.",
    )


class SecuritySettings(
    TlsSettings,
    LoginSettings,
    TokenReadingSettings,
    TokenGettingSettings,
    SaslSettings,
    TokenSettings,
):
    """TLS, SASL, principals and delegation tokens."""

    authorizer_class_name = string(
        "",
        LOW,
        doc="The authorizer that checks each request against access control lists: Apache Kafka's "
        "StandardAuthorizer, with `super.users` and `allow.everyone.if.no.acl.found`, or 3.9's "
        "AclAuthorizer in a cluster on ZooKeeper. Empty: nothing is checked, everybody may do "
        "everything.",
    )
    principal_builder_class = java_class(
        MEDIUM,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        mode=PER_BROKER,
        effect=JAVA,
    )
    security_inter_broker_protocol = string(
        "PLAINTEXT",
        MEDIUM,
        one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        doc="The listener that brokers use between each other, if inter.broker.listener.name is not"
        " set.",
    )
    security_providers = optional_string(LOW, effect=JAVA)
