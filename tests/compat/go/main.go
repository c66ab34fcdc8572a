// Drives a broker with franz-go, and prints what it saw as one line of JSON.
//
// Usage: franz BOOTSTRAP TOPIC. The topic is created, and its name begins those of the groups and of the
// transactional id.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	partitions = 3
	records    = 12
	timeout    = 50 * time.Second
)

type seen struct {
	Classic  []string `json:"classic"`  // values that two members of a classic group read, one of them static
	Consumer []string `json:"consumer"` // values that a member of a KIP-848 group read
	Share    []string `json:"share"`    // values that a member of a share group acknowledged
	Members  int      `json:"members"`  // of the classic group, while it was stable
	Owned    int      `json:"owned"`    // partitions that these members had together
	Lag      int64    `json:"lag"`      // of the classic group, after its commit
	Open     []string `json:"open"`     // transactional ids that were listed as ongoing
	Start    int64    `json:"start"`    // the log start offset after a record was deleted
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	seed, topic := kgo.SeedBrokers(os.Args[1]), os.Args[2]
	client := must(kgo.NewClient(seed))
	defer client.Close()
	admin := kadm.NewClient(client)
	must(admin.CreateTopic(ctx, partitions, 1, nil, topic))

	result := seen{Open: produce(ctx, seed, topic, admin)}
	classic(ctx, seed, topic, admin, &result)
	result.Consumer = consumer(ctx, seed, topic)
	result.Lag = lag(ctx, admin, topic+"-classic")
	result.Share = share(ctx, seed, topic, client)

	first := kadm.Offsets{}
	first.AddOffset(topic, 0, 1, -1)
	check(must(admin.DeleteRecords(ctx, first)).Error())
	start := must(admin.ListStartOffsets(ctx, topic))
	result.Start = start[topic][0].Offset
	check(must(admin.DeleteGroups(ctx, topic+"-classic", topic+"-consumer")).Error())
	check(json.NewEncoder(os.Stdout).Encode(result))
}

// Commits a transaction with records in all partitions, and aborts another one.
func produce(ctx context.Context, seed kgo.Opt, topic string, admin *kadm.Client) []string {
	producer := must(kgo.NewClient(seed, kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner())))
	defer producer.Close()
	var open []string
	for _, how := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		check(producer.BeginTransaction())
		for i := range records {
			value := fmt.Sprintf("%v-%02d", map[bool]string{true: "kept", false: "aborted"}[bool(how)], i)
			check(producer.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr())
		}
		ongoing := must(admin.ListTransactions(ctx, nil, []string{"Ongoing"}))
		open = append(open, ongoing.TransactionalIDs()...)
		check(producer.EndTransaction(ctx, how))
	}
	return open
}

// Reads with two members of a classic group, each in its turn.
func classic(ctx context.Context, seed kgo.Opt, topic string, admin *kadm.Client, result *seen) {
	group := topic + "-classic"
	first := must(kgo.NewClient(reading(seed, topic, kgo.ConsumerGroup(group), kgo.DisableAutoCommit())...))
	defer first.Close()
	result.Classic = read(ctx, first)
	check(first.CommitUncommittedOffsets(ctx))
	second := must(kgo.NewClient(reading(seed, topic, kgo.ConsumerGroup(group), kgo.InstanceID("static"))...))
	for ctx.Err() == nil && result.Members < 2 {
		poll(ctx, first)
		poll(ctx, second)
		described := must(admin.DescribeGroups(ctx, group))[group]
		check(described.Err)
		owned := len(described.AssignedPartitions()[topic])
		if described.State == "Stable" && owned == partitions {
			result.Members, result.Owned = len(described.Members), owned
		}
	}
	second.Close() // a static member leaves only when it is told to
	left := must(admin.LeaveGroup(ctx, kadm.LeaveGroup(group).InstanceIDs("static")))
	check(left.Error())
}

// Reads with a member whose partitions the broker assigns (KIP-848), of topics that it finds by a pattern.
func consumer(ctx context.Context, seed kgo.Opt, topic string) []string {
	next := context.WithValue(ctx, "opt_in_kafka_next_gen_balancer_beta", true)
	member := must(kgo.NewClient(reading(seed, topic+".*", kgo.ConsumerGroup(topic+"-consumer"),
		kgo.ConsumeRegex(), kgo.WithContext(next))...))
	defer member.Close()
	values := read(ctx, member)
	check(member.CommitUncommittedOffsets(ctx))
	return values
}

// Reads with a member of a share group (KIP-932), which is given committed records from the first on.
func share(ctx context.Context, seed kgo.Opt, topic string, client *kgo.Client) []string {
	group := topic + "-share"
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for name, value := range map[string]string{
		"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed",
	} {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Value = name, kmsg.StringPtr(value)
		resource.Configs = append(resource.Configs, config)
	}
	alter.Resources = append(alter.Resources, resource)
	check(kerr.ErrorForCode(must(alter.RequestWith(ctx, client)).Resources[0].ErrorCode))
	member := must(kgo.NewClient(seed, kgo.ConsumeTopics(topic), kgo.ShareGroup(group)))
	defer member.Close()
	return read(ctx, member)
}

func reading(seed kgo.Opt, topic string, more ...kgo.Opt) []kgo.Opt {
	return append(more, seed, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200*time.Millisecond))
}

// Polls until as many records came as were committed, and returns their values in order.
func read(ctx context.Context, member *kgo.Client) []string {
	var values []string
	for ctx.Err() == nil && len(values) < records {
		values = append(values, poll(ctx, member)...)
	}
	slices.Sort(values)
	return values
}

// Returns the values of the records that come within some moments.
func poll(ctx context.Context, member *kgo.Client) []string {
	moment, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	var values []string
	member.PollFetches(moment).EachRecord(func(record *kgo.Record) {
		values = append(values, string(record.Value))
	})
	return values
}

func lag(ctx context.Context, admin *kadm.Client, groups ...string) int64 {
	var total int64
	lags := must(admin.Lag(ctx, groups...))
	check(lags.Error())
	for _, group := range lags {
		total += group.Lag.Total()
	}
	return total
}
