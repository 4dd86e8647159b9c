// Clients of franz-go that do what they are told, a JSON line each, as confluent.py does.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type told struct {
	ID                   int      `json:"id"`
	Who                  string   `json:"who"`
	Do                   string   `json:"do"`
	Bootstrap            string   `json:"bootstrap"`
	Idempotent           *bool    `json:"idempotent"`
	TransactionalID      string   `json:"transactional_id"`
	TransactionTimeoutMs int      `json:"transaction_timeout_ms"`
	Acks                 string   `json:"acks"`
	DeliveryTimeoutMs    int      `json:"delivery_timeout_ms"`
	RequestTimeoutMs     int      `json:"request_timeout_ms"`
	BatchBytes           int32    `json:"batch_bytes"`
	Group                string   `json:"group"`
	Topics               []string `json:"topics"`
	Reset                string   `json:"reset"`
	Isolation            string   `json:"isolation"`
	SessionTimeoutMs     int      `json:"session_timeout_ms"`
	HeartbeatMs          int      `json:"heartbeat_ms"`
	Topic                string   `json:"topic"`
	Partition            int32    `json:"partition"`
	Values               []string `json:"values"`
	Count                int      `json:"count"`
	TimeoutMs            int      `json:"timeout_ms"`
	Before               int64    `json:"before"`
}

type answer struct {
	ID      int    `json:"id"`
	Value   any    `json:"value"`
	Error   string `json:"error,omitempty"`
	Message string `json:"message,omitempty"`
}

var saying sync.Mutex

func say(it answer) {
	line, _ := json.Marshal(it)
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(string(line))
}

func named(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	if errors.Is(err, kgo.ErrRecordTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return "TIMED_OUT"
	}
	return err.Error()
}

func ms(count int) time.Duration { return time.Duration(count) * time.Millisecond }

func options(it told) []kgo.Opt {
	made := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(it.Bootstrap, ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RetryBackoffFn(func(int) time.Duration { return ms(50) }),
		kgo.MetadataMinAge(ms(50)),
	}
	if it.Idempotent != nil && !*it.Idempotent {
		made = append(made, kgo.DisableIdempotentWrite())
	}
	if it.Acks == "1" {
		made = append(made, kgo.RequiredAcks(kgo.LeaderAck()))
	}
	if it.TransactionalID != "" {
		made = append(made, kgo.TransactionalID(it.TransactionalID))
	}
	if it.TransactionTimeoutMs > 0 {
		made = append(made, kgo.TransactionTimeout(ms(it.TransactionTimeoutMs)))
	}
	if it.DeliveryTimeoutMs > 0 {
		made = append(made, kgo.RecordDeliveryTimeout(ms(it.DeliveryTimeoutMs)))
	}
	if it.RequestTimeoutMs > 0 {
		made = append(made, kgo.ProduceRequestTimeout(ms(it.RequestTimeoutMs)),
			kgo.RequestTimeoutOverhead(ms(it.RequestTimeoutMs)))
	}
	if it.BatchBytes > 0 {
		made = append(made, kgo.ProducerBatchMaxBytes(it.BatchBytes))
	}
	if it.Do != "consumer" {
		return made
	}
	reset := kgo.NewOffset().AtEnd()
	if it.Reset == "earliest" {
		reset = kgo.NewOffset().AtStart()
	}
	made = append(made, kgo.ConsumerGroup(it.Group), kgo.ConsumeTopics(it.Topics...),
		kgo.ConsumeResetOffset(reset), kgo.DisableAutoCommit(), kgo.FetchMaxWait(ms(100)))
	if it.Isolation == "read_committed" {
		made = append(made, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if it.SessionTimeoutMs > 0 {
		made = append(made, kgo.SessionTimeout(ms(it.SessionTimeoutMs)))
	}
	if it.HeartbeatMs > 0 {
		made = append(made, kgo.HeartbeatInterval(ms(it.HeartbeatMs)))
	}
	return made
}

func send(client *kgo.Client, it told) []any {
	outcomes := make([]any, len(it.Values))
	var sent sync.WaitGroup
	for at, value := range it.Values {
		sent.Add(1)
		record := &kgo.Record{Topic: it.Topic, Partition: it.Partition, Value: []byte(value)}
		client.Produce(context.Background(), record, func(written *kgo.Record, err error) {
			if outcomes[at] = written.Offset; err != nil {
				outcomes[at] = named(err)
			}
			sent.Done()
		})
	}
	sent.Wait()
	return outcomes
}

func poll(client *kgo.Client, it told) ([][]any, error) {
	found := [][]any{}
	within, cancel := context.WithTimeout(context.Background(), ms(it.TimeoutMs))
	defer cancel()
	for len(found) < it.Count && within.Err() == nil {
		fetches := client.PollRecords(within, it.Count-len(found))
		for _, each := range fetches.Errors() {
			if !errors.Is(each.Err, context.DeadlineExceeded) {
				return found, each.Err
			}
		}
		fetches.EachRecord(func(record *kgo.Record) {
			found = append(found, []any{record.Partition, record.Offset, string(record.Value)})
		})
	}
	return found, nil
}

func create(client *kgo.Client, topic string) error {
	request := kmsg.NewPtrCreateTopicsRequest()
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, 1, -1
	request.Topics = append(request.Topics, wanted)
	reply, err := request.RequestWith(context.Background(), client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(reply.Topics[0].ErrorCode)
}

func deleteRecords(client *kgo.Client, it told) error {
	request := kmsg.NewPtrDeleteRecordsRequest()
	partition := kmsg.NewDeleteRecordsRequestTopicPartition()
	partition.Partition, partition.Offset = it.Partition, it.Before
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic, topic.Partitions = it.Topic, append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	reply, err := request.RequestWith(context.Background(), client)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(reply.Topics[0].Partitions[0].ErrorCode)
}

func do(client *kgo.Client, it told) (any, error) {
	ctx := context.Background()
	switch it.Do {
	case "send":
		return send(client, it), nil
	case "poll":
		return poll(client, it)
	case "init":
		_, _, err := client.ProducerID(ctx)
		return nil, err
	case "begin":
		return nil, client.BeginTransaction()
	case "commit":
		if group, _ := client.GroupMetadata(); group != "" {
			return nil, client.CommitUncommittedOffsets(ctx)
		}
		return nil, client.EndTransaction(ctx, kgo.TryCommit)
	case "abort":
		return nil, client.EndTransaction(ctx, kgo.TryAbort)
	case "create":
		return nil, create(client, it.Topic)
	case "delete_records":
		return nil, deleteRecords(client, it)
	case "close":
		client.Close()
		return nil, nil
	}
	return nil, fmt.Errorf("nobody can %s", it.Do)
}

func serve(orders chan told) {
	var client *kgo.Client
	for it := range orders {
		var value any
		var err error
		if it.Do == "producer" || it.Do == "consumer" || it.Do == "admin" {
			client, err = kgo.NewClient(options(it)...)
		} else {
			value, err = do(client, it)
		}
		if err != nil {
			say(answer{ID: it.ID, Error: named(err), Message: err.Error()})
		} else {
			say(answer{ID: it.ID, Value: value})
		}
	}
}

func main() {
	clients := map[string]chan told{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var it told
		if err := json.Unmarshal(lines.Bytes(), &it); err != nil {
			panic(err)
		}
		orders, isKnown := clients[it.Who]
		if !isKnown {
			orders = make(chan told, 100)
			clients[it.Who] = orders
			go serve(orders)
		}
		orders <- it
	}
}
