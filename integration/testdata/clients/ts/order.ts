// A client as a user makes one: the types are generated from the document of the
// coordinator, see api.ts. It gives one order and prints its output.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const fleet = createClient<paths>({
  baseUrl: process.env.ADDRESS,
  headers: { Authorization: `Bearer ${process.env.TOKEN}` },
});

const args: components["schemas"]["args.host.run"] = { argv: ["echo", "hello from", "TypeScript"] };
const asked = await fleet.POST("/v1/actions", {
  params: { query: { wait: "30s" }, header: { "Idempotency-Key": "typescript-client" } },
  body: { host: process.env.HOST!, kind: "host.run", args },
});
if (asked.error) throw new Error(asked.error.detail);
console.log(asked.data.state, asked.data.reason);

const output = await fleet.GET("/v1/actions/{id}/output", {
  params: { path: { id: asked.data.id }, query: { follow: true } },
  parseAs: "text",
});
process.stdout.write(output.data ?? "");

const wrong = await fleet.GET("/v1/hosts/{host}", { params: { path: { host: "nobody" } } });
console.log(wrong.error?.code);
