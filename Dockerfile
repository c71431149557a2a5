# syntax=docker/dockerfile:1
# The image of Waywarden. Not built where it was written: no image registry was reachable there. Pin both base images by digest
# when it is built for the first time (docker buildx imagetools inspect IMAGE).

FROM node:24.21.0-bookworm-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
# the bundle is made below, when the sources are there
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
# esbuild's own script puts its binary in place; the image's Node runs it, not the development dependency
RUN node node_modules/esbuild/install.js && node scripts/build.ts \
 && npm prune --omit=dev --ignore-scripts --no-audit --no-fund

FROM gcr.io/distroless/nodejs24-debian12:nonroot
LABEL org.opencontainers.image.title="waywarden" \
      org.opencontainers.image.description="The guard in front of an Istio mesh" \
      org.opencontainers.image.licenses="Apache-2.0"
WORKDIR /app
ENV NODE_ENV=production
COPY --from=build --chown=0:0 /app/package.json /app/LICENSE /app/config.schema.json ./
COPY --from=build --chown=0:0 /app/node_modules ./node_modules
COPY --from=build --chown=0:0 /app/dist ./dist
COPY --from=build --chown=0:0 /app/policies ./policies
COPY --from=build --chown=0:0 /app/examples ./examples
# nothing in the image is written to: run it with a read-only root file system, and mount certificates with --tls-cert/--tls-key
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["/nodejs/bin/node", "/app/dist/main.js"]
CMD ["--help"]
