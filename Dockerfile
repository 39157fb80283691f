# The program `posthaste`, and nothing else: no shell, no package manager, not root.
#
#   docker build --tag posthaste .
#   docker run --volume ./posthaste.toml:/etc/posthaste/posthaste.toml:ro posthaste
#
# What it does by itself is `run`; every other command follows the name of the image. See docs/deploy.md.

FROM rust:1.94-bookworm AS build
WORKDIR /src
COPY . .
# librdkafka and OpenSSL are built here and linked in: what the compiler's image has is enough.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --package posthaste-cli \
    && strip --strip-all --output /posthaste target/release/posthaste

# glibc, the certificate authorities, and a user that may do nothing.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /posthaste /usr/local/bin/posthaste
# posthaste.toml is looked for here; without one, the environment configures everything.
WORKDIR /etc/posthaste
EXPOSE 7411
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/posthaste"]
CMD ["run"]
