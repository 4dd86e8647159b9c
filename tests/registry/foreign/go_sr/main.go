// franz-go's client of registries against a registry: `sr URL SUBJECT` prints what it found as JSON.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

const order = `{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}`
const narrower = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}`

type found map[string]any

func main() {
	out, err := run(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	json.NewEncoder(os.Stdout).Encode(out)
}

func run(url, subject string) (found, error) {
	ctx := context.Background()
	client, err := sr.NewClient(sr.URLs(url))
	if err != nil {
		return nil, err
	}
	out := found{}
	created, err := client.CreateSchema(ctx, subject, sr.Schema{Schema: order, Type: sr.TypeAvro})
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	out["id"], out["version"] = created.ID, created.Version
	again, err := client.LookupSchema(ctx, subject, sr.Schema{Schema: order, Type: sr.TypeAvro})
	if err != nil {
		return nil, fmt.Errorf("look up: %w", err)
	}
	out["looked_up"] = again.ID
	byID, err := client.SchemaByID(ctx, created.ID)
	if err != nil {
		return nil, fmt.Errorf("by id: %w", err)
	}
	out["text"] = byID.Schema
	versions, err := client.SubjectVersions(ctx, subject)
	if err != nil {
		return nil, fmt.Errorf("versions: %w", err)
	}
	out["versions"] = versions
	check, err := client.CheckCompatibility(
		ctx, subject, -1, sr.Schema{Schema: narrower, Type: sr.TypeAvro})
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	out["compatible"] = check.Is
	_, err = client.CreateSchema(ctx, subject, sr.Schema{Schema: narrower, Type: sr.TypeAvro})
	var refused *sr.ResponseError
	if !errors.As(err, &refused) {
		return nil, fmt.Errorf("an incompatible schema is registered: %v", err)
	}
	out["refused"] = refused.ErrorCode
	for _, set := range client.SetCompatibility(
		ctx, sr.SetCompatibility{Level: sr.CompatFull}, subject) {
		if set.Err != nil {
			return nil, fmt.Errorf("set compatibility: %w", set.Err)
		}
	}
	for _, level := range client.Compatibility(ctx, subject) {
		if level.Err != nil {
			return nil, fmt.Errorf("compatibility: %w", level.Err)
		}
		out["level"] = level.Level.String()
	}
	out["record"], err = encoded(created.ID)
	if err != nil {
		return nil, err
	}
	if _, err := client.DeleteSubject(ctx, subject, sr.SoftDelete); err != nil {
		return nil, fmt.Errorf("delete: %w", err)
	}
	deleted, err := client.SubjectVersions(sr.WithParams(ctx, sr.ShowDeleted), subject)
	if err != nil {
		return nil, fmt.Errorf("deleted versions: %w", err)
	}
	out["deleted"] = deleted
	return out, nil
}

// encoded returns a record that sr's Serde wrote, and that it read again.
func encoded(id int) ([]byte, error) {
	type Order struct{ ID int64 }
	var serde sr.Serde
	serde.Register(
		id,
		Order{},
		sr.EncodeFn(func(v any) ([]byte, error) { return []byte{byte(v.(Order).ID << 1)}, nil }),
		sr.DecodeFn(func(raw []byte, v any) error {
			v.(*Order).ID = int64(raw[0] >> 1)
			return nil
		}),
	)
	raw, err := serde.Encode(Order{ID: 7})
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	var order Order
	if err := serde.Decode(raw, &order); err != nil || order.ID != 7 {
		return nil, fmt.Errorf("decode: %v, %w", order, err)
	}
	return raw, nil
}
