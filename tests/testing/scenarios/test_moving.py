"""Leaders and coordinators that really move, and brokers that are lost, in a cluster of three.

What librdkafka #4953 (a duplicate amid a leader's move), confluent-kafka-python #1128 (sequence
numbers when a broker comes back) and franz-go #107 (a loss seen where a leader has moved twice)
tell of is among it.
"""

from __future__ import annotations

import threading

from kwire.testing import KafkaCluster, Topic
from tests.testing.scenarios.clients import Clients
from tests.testing.scenarios.scenario import by_all
from tests.testing.scenarios.test_consuming import VALUES, commit

WAIT_S = 120


@by_all
def test_the_leader_moves_between_records(
    clients: Clients, cluster: KafkaCluster, orders: Topic
) -> None:
    producer = clients.producer(cluster)
    for number in range(4):
        assert producer.send(orders.name, str(number)) == [number]
        cluster.move_leader(orders.name)
    orders.assert_holds(["0", "1", "2", "3"])


@by_all
def test_the_leader_moves_amid_acks_of_all(
    clients: Clients, cluster: KafkaCluster, orders: Topic
) -> None:
    """The record is at the leader, who waits for its followers, and leads no more."""
    producer = clients.producer(cluster)
    assert producer.send(orders.name, "a") == [0]
    leader = cluster.brokers[cluster.leader_of(orders.name)]
    held = leader.faults.add(
        api="Fetch", client="broker-*-fetcher-*", topic=orders.name, delay_ms=1500, times=2
    )
    held.assert_happened(times=2, within_s=WAIT_S)
    sending = producer.begin("send", topic=orders.name, values=["b"])
    cluster.move_leader(orders.name)
    assert sending.result() == [1]
    orders.assert_holds(["a", "b"])


@by_all
def test_the_leader_moves_under_a_stream_of_records(
    clients: Clients, cluster: KafkaCluster, orders: Topic
) -> None:
    producer = clients.producer(cluster, batch_bytes=1024)
    values = [f"{number}-{'x' * 200}" for number in range(400)]
    sending = producer.begin("send", topic=orders.name, values=values)
    for _ in range(3):
        cluster.move_leader(orders.name)
    assert sending.result() == list(range(400))
    orders.assert_holds(values)


@by_all
def test_a_consumer_follows_the_leader(
    clients: Clients, cluster: KafkaCluster, orders: Topic
) -> None:
    orders.seed(VALUES)
    consumer = clients.consumer(cluster, orders.name, orders.name)
    assert consumer.poll(10) == VALUES
    commit(consumer)
    for number in range(3):
        cluster.move_leader(orders.name)
        orders.seed([f"more-{number}"])
        assert consumer.poll(1) == [f"more-{number}"]
    commit(consumer)
    assert cluster.lag(orders.name) == {orders.name: 0}


@by_all
def test_the_coordinator_moves_amid_commits(
    clients: Clients, cluster: KafkaCluster, orders: Topic
) -> None:
    group = orders.name
    orders.seed(VALUES)
    consumer = clients.consumer(cluster, orders.name, group)
    assert consumer.poll(10) == VALUES
    moving = threading.Thread(target=cluster.move_coordinator, kwargs={"group": group})
    moving.start()
    for _ in range(5):
        commit(consumer)
    moving.join()
    commit(consumer)
    orders.seed(["more"])
    assert consumer.poll(1) == ["more"], "the group goes on where it was"
    commit(consumer)
    assert cluster.lag(group) == {orders.name: 0}


@by_all
def test_the_coordinator_moves_amid_a_transaction(
    clients: Clients, cluster: KafkaCluster, orders: Topic
) -> None:
    producer = clients.producer(cluster, transactional_id=orders.name)
    producer.do("init")
    producer.do("begin")
    assert producer.send(orders.name, "a") == [0]
    cluster.move_coordinator(transactional_id=orders.name)
    producer.do("commit")
    producer.do("begin")
    producer.send(orders.name, "b")
    cluster.move_leader(orders.name)
    producer.do("commit")
    orders.assert_holds(["a", "b"], committed=True, within_s=WAIT_S)


@by_all
def test_the_leader_is_killed(clients: Clients, cluster: KafkaCluster, orders: Topic) -> None:
    producer = clients.producer(cluster)
    assert producer.send(orders.name, "a") == [0]
    lost = cluster.brokers[cluster.leader_of(orders.name)]
    lost.kill()
    assert producer.send(orders.name, "b") == [1]
    lost.start()
    cluster.wait_until_members()
    assert producer.send(orders.name, "c") == [2]
    orders.assert_holds(["a", "b", "c"])


@by_all
def test_the_leader_stands_still(clients: Clients, cluster: KafkaCluster, orders: Topic) -> None:
    """For less than its session: who waits for it is served when it goes on."""
    producer = clients.producer(cluster)
    assert producer.send(orders.name, "a") == [0]
    leader = cluster.brokers[cluster.leader_of(orders.name)]
    leader.pause()
    sending = producer.begin("send", topic=orders.name, values=["b"])
    threading.Event().wait(0.5)
    assert not sending.is_done
    leader.resume()
    assert sending.result() == [1]
    orders.assert_holds(["a", "b"])


@by_all
def test_the_coordinator_is_killed(clients: Clients, cluster: KafkaCluster, orders: Topic) -> None:
    group = orders.name
    orders.seed(VALUES)
    consumer = clients.consumer(cluster, orders.name, group)
    assert consumer.poll(10) == VALUES
    commit(consumer)
    home = cluster.move_coordinator(group=group)["to"]
    cluster.brokers[home].kill()
    orders.seed(["more"])
    assert consumer.poll(1) == ["more"]
    commit(consumer)
    assert cluster.lag(group) == {orders.name: 0}
