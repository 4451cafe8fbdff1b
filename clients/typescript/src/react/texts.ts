/** The words of a Dropzone. */
export interface DropzoneTexts {
  label: (multiple: boolean) => string
  choose: (multiple: boolean) => string
  pause: string
  resume: string
  retry: string
  remove: string
  waiting: string
  paused: string
  done: string
  sending: (percent: number) => string
  failed: (reason: string) => string
  /** What screen readers say of all that is sent. */
  progress: (files: number, percent: number) => string
  /** Files that are not taken. */
  rejected: (names: readonly string[]) => string
}

export const defaultTexts: DropzoneTexts = {
  label: (multiple) => (multiple ? 'Drop files here, or choose them' : 'Drop a file here, or choose it'),
  choose: (multiple) => (multiple ? 'Choose files' : 'Choose a file'),
  pause: 'Pause',
  resume: 'Resume',
  retry: 'Try again',
  remove: 'Remove',
  waiting: 'waiting',
  paused: 'paused',
  done: 'uploaded',
  sending: (percent) => `${percent} %`,
  failed: (reason) => `failed: ${reason}`,
  progress: (files, percent) => `${files === 1 ? 'Uploading a file' : `Uploading ${files} files`}: ${percent} %.`,
  rejected: (names) => `Not taken: ${names.join(', ')}.`,
}
