// The measure: fastify on HTTPS/1.1 that parses a review and allows it, and nothing else.
import { readFileSync } from 'node:fs';
import fastify from 'fastify';

const [cert, key] = process.argv.slice(2);
if (cert === undefined || key === undefined) throw new Error('usage: bare.ts CERT KEY');

const server = fastify({
  https: { cert: readFileSync(cert), key: readFileSync(key) },
  bodyLimit: 8 << 20,
  keepAliveTimeout: 120_000,
});
server.post('/validate', async request => {
  const { uid } = (request.body as { request: { uid: string } }).request;
  return { apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response: { uid, allowed: true } };
});
const address = await server.listen({ host: '127.0.0.1', port: 0 });
console.log(JSON.stringify({ port: Number(new URL(address).port) }));
