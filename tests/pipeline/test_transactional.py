"""An error of a producer's callback is left to the producer's next call if that raises it again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from kwire.pipeline.transactional import TransactionalClient


def raising(error: Exception) -> Callable[[float], int]:
    def call(_timeout_s: float) -> int:
        raise error

    return call


FENCED = KafkaException(KafkaError(KafkaError._FENCED, "fenced", fatal=True))
REFUSED = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))


def test_serve_returns_the_result_of_its_call() -> None:
    assert TransactionalClient._serve(lambda timeout_s: int(timeout_s * 10), 0.5) == 5


@pytest.mark.parametrize("error", [FENCED, SystemError("returned NULL without an exception")])
def test_fatal_error_in_a_callback_is_left_to_the_next_call(error: Exception) -> None:
    assert TransactionalClient._serve(raising(error), 1.0) == 0


def test_other_error_in_a_callback_is_raised() -> None:
    with pytest.raises(KafkaException):
        TransactionalClient._serve(raising(REFUSED), 1.0)
