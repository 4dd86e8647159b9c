// Registers, encodes and decodes by two clients for Node, and prints what came back as JSON.
const { create } = require("@bufbuild/protobuf");
const { TimestampSchema } = require("@bufbuild/protobuf/wkt");
const confluent = require("@confluentinc/schemaregistry");
const kafkajs = require("@kafkajs/confluent-schema-registry");

const [url, prefix] = process.argv.slice(2);
const VALUE = { a: "x" };
const SCHEMAS = {
  AVRO: '{"type":"record","namespace":"k","name":"A","fields":[{"name":"a","type":"string"}]}',
  JSON: '{"type":"object","title":"J","properties":{"a":{"type":"string"}},"required":["a"]}',
  PROTOBUF: 'syntax = "proto3"; package k; message P { string a = 1; }',
};

async function withKafkajs() {
  const registry = new kafkajs.SchemaRegistry({ host: url });
  const decoded = {};
  for (const [type, schema] of Object.entries(SCHEMAS)) {
    const subject = `${prefix}-kafkajs-${type}-value`;
    const { id } = await registry.register({ type, schema }, { subject });
    const bytes = await registry.encode(id, VALUE);
    // Another registry object has no schema in its cache.
    decoded[type] = await new kafkajs.SchemaRegistry({ host: url }).decode(bytes);
    if ((await registry.getLatestSchemaId(subject)) !== id) throw new Error(`${subject}: id`);
  }
  return decoded;
}

function client() {
  return new confluent.SchemaRegistryClient({ baseURLs: [url] });
}

async function withConfluent() {
  const kinds = {
    AVRO: [confluent.AvroSerializer, confluent.AvroDeserializer],
    JSON: [confluent.JsonSerializer, confluent.JsonDeserializer],
  };
  const decoded = {};
  for (const [type, [Serializer, Deserializer]] of Object.entries(kinds)) {
    const topic = `${prefix}-${type}`;
    await client().register(`${topic}-value`, { schemaType: type, schema: SCHEMAS[type] });
    const writer = new Serializer(client(), confluent.SerdeType.VALUE, { useLatestVersion: true });
    const bytes = await writer.serialize(topic, VALUE);
    const reader = new Deserializer(client(), confluent.SerdeType.VALUE, {});
    decoded[type] = await reader.deserialize(topic, bytes);
  }
  const topic = `${prefix}-PROTOBUF`;
  const options = { autoRegisterSchemas: true };
  const writer = new confluent.ProtobufSerializer(client(), confluent.SerdeType.VALUE, options);
  writer.registry.add(TimestampSchema);
  const bytes = await writer.serialize(topic, create(TimestampSchema, { seconds: 5n }));
  const reader = new confluent.ProtobufDeserializer(client(), confluent.SerdeType.VALUE, {});
  decoded.PROTOBUF = Number((await reader.deserialize(topic, bytes)).seconds);
  return decoded;
}

async function settings() {
  const subject = `${prefix}-AVRO-value`;
  const schema = { schemaType: "AVRO", schema: SCHEMAS.AVRO };
  return {
    compatible: await client().testSubjectCompatibility(subject, schema),
    config: await client().updateConfig(subject, { compatibility: "FULL" }),
    deleted: await client().deleteSubject(`${prefix}-JSON-value`),
  };
}

async function main() {
  const found = { kafkajs: await withKafkajs(), confluent: await withConfluent() };
  console.log(JSON.stringify({ ...found, ...(await settings()) }));
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
