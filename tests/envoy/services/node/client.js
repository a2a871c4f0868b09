// A unary call of grpc-js with bytes: client.js TARGET METHOD KEY REQUEST_HEX. Prints the reply as JSON.
const grpc = require('@grpc/grpc-js');

const [target, method, key, request] = process.argv.slice(2);
const client = new grpc.Client(target, grpc.credentials.createInsecure(), { 'grpc.enable_http_proxy': 0 });
const metadata = new grpc.Metadata();
metadata.set('idempotency-key', key);
metadata.set('x-tenant', 'shop');
const bytes = (buffer) => buffer;
let done = null;
const call = client.makeUnaryRequest(
  method, bytes, bytes, Buffer.from(request, 'hex'), metadata, { deadline: Date.now() + 20000 },
  (error, reply) => { done = { error, reply }; });
call.on('status', (status) => {
  const trailer = (name) => status.metadata.get(name)[0];
  console.log(JSON.stringify({
    code: status.code, message: status.code === 0 ? '' : status.details,
    reply: done && done.reply ? done.reply.toString('hex') : '',
    execution: trailer('x-execution') || '', replayed: trailer('idempotency-replayed') !== undefined,
  }));
  client.close();
});
