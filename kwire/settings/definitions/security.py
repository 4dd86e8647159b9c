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

    ssl_allow_dn_changes = boolean(False, LOW)
    ssl_allow_san_changes = boolean(False, LOW)
    ssl_cipher_suites = strings((), MEDIUM, members(), mode=PER_BROKER)
    ssl_client_auth = string(
        "none", MEDIUM, one_of("required", "requested", "none"), mode=PER_BROKER
    )
    ssl_enabled_protocols = strings(("TLSv1.2", "TLSv1.3"), MEDIUM, members(), mode=PER_BROKER)
    ssl_endpoint_identification_algorithm = string("https", LOW, mode=PER_BROKER)
    ssl_engine_factory_class = java_class(LOW, mode=PER_BROKER, effect=JAVA)
    ssl_key_password = password(MEDIUM, mode=PER_BROKER)
    ssl_keymanager_algorithm = string("SunX509", MEDIUM, mode=PER_BROKER, effect=PYTHON_TLS)
    ssl_keystore_certificate_chain = password(MEDIUM, mode=PER_BROKER)
    ssl_keystore_key = password(MEDIUM, mode=PER_BROKER)
    ssl_keystore_location = optional_string(MEDIUM, mode=PER_BROKER)
    ssl_keystore_password = password(MEDIUM, mode=PER_BROKER)
    ssl_keystore_type = string("JKS", MEDIUM, mode=PER_BROKER)
    ssl_principal_mapping_rules = string("DEFAULT", LOW)
    ssl_protocol = string("TLSv1.3", MEDIUM, mode=PER_BROKER)
    ssl_provider = optional_string(MEDIUM, mode=PER_BROKER, effect=JAVA)
    ssl_secure_random_implementation = optional_string(LOW, mode=PER_BROKER, effect=PYTHON_TLS)
    ssl_trustmanager_algorithm = string("PKIX", MEDIUM, mode=PER_BROKER, effect=PYTHON_TLS)
    ssl_truststore_certificates = password(MEDIUM, mode=PER_BROKER)
    ssl_truststore_location = optional_string(MEDIUM, mode=PER_BROKER)
    ssl_truststore_password = password(MEDIUM, mode=PER_BROKER)
    ssl_truststore_type = string("JKS", MEDIUM, mode=PER_BROKER)


class LoginSettings(Settings):
    """Logins of clients by SASL."""

    connection_failed_authentication_delay_ms = integer(100, LOW, at_least(0))
    connections_max_reauth_ms = long(0, MEDIUM)
    sasl_enabled_mechanisms = strings(("GSSAPI",), MEDIUM, members(), mode=PER_BROKER)
    sasl_jaas_config = password(MEDIUM, mode=PER_BROKER)
    sasl_mechanism_inter_broker_protocol = string("GSSAPI", MEDIUM, mode=PER_BROKER)
    sasl_server_max_receive_size = integer(524_288, MEDIUM)


class TokenReadingSettings(Settings):
    """The check of OAUTHBEARER tokens that clients send."""

    sasl_oauthbearer_clock_skew_seconds = integer(30, LOW)
    sasl_oauthbearer_expected_audience = strings((), HIGH, members())
    sasl_oauthbearer_expected_issuer = optional_string(HIGH)
    sasl_oauthbearer_jwks_endpoint_refresh_ms = long(3_600_000, LOW)
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = long(10_000, LOW)
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = long(100, LOW)
    sasl_oauthbearer_jwks_endpoint_url = optional_string(MEDIUM)
    sasl_oauthbearer_scope_claim_name = string("scope", LOW)
    sasl_oauthbearer_sub_claim_name = string("sub", LOW)
    sasl_server_callback_handler_class = java_class(MEDIUM)


class TokenGettingSettings(Settings):
    """The source of the OAUTHBEARER token by which a broker logs in to other brokers."""

    sasl_login_callback_handler_class = java_class(MEDIUM)
    sasl_login_refresh_window_factor = double(0.8, MEDIUM, mode=PER_BROKER)
    sasl_oauthbearer_client_credentials_client_id = optional_string(MEDIUM)
    sasl_oauthbearer_client_credentials_client_secret = password(MEDIUM)
    sasl_oauthbearer_scope = optional_string(MEDIUM)
    sasl_oauthbearer_token_endpoint_url = optional_string(MEDIUM)


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
    sasl_mechanism_controller_protocol = string("GSSAPI", HIGH)
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

    delegation_token_expiry_check_interval_ms = long(3_600_000, LOW, at_least(1))
    delegation_token_expiry_time_ms = long(86_400_000, MEDIUM, at_least(1))
    delegation_token_max_lifetime_ms = long(604_800_000, MEDIUM, at_least(1))
    delegation_token_secret_key = password(MEDIUM)


class SecuritySettings(
    TlsSettings,
    LoginSettings,
    TokenReadingSettings,
    TokenGettingSettings,
    SaslSettings,
    TokenSettings,
):
    """TLS, SASL, principals and delegation tokens."""

    authorizer_class_name = string("", LOW)
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
    )
    security_providers = optional_string(LOW, effect=JAVA)
