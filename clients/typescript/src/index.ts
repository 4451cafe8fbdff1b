/** The client of the mediastack media storage service. */
export * from './client.js'
export { ConnectionError, type ErrorCode, MediastackError, MissingDocumentError } from './errors.js'
export type { components, operations, paths } from './schema.js'
export type { Credential, Renewable, RetryOptions, TransportOptions } from './transport.js'
