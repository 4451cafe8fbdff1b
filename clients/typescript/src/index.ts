/** The client of the mediastack media storage service. */
export * from './client.js'
export { ConnectionError, type ErrorCode, EventsGoneError, MediastackError, MissingDocumentError, NotSealedError, UploadFromUrlError } from './errors.js'
export type { Filter, GroupOptions, ListOptions, Page, Selection } from './list.js'
export type { components, operations, paths } from './schema.js'
export type { ByteStream, UploadFile } from './source.js'
export type { Credential, Renewable, RetryOptions, TransportOptions } from './transport.js'
export type { UploadFromUrlOptions, UploadOptions, WaitOptions } from './upload.js'
