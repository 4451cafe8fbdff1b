// The OAuth provider of an SDK for a program on a computer: it keeps its tokens in memory, and has the
// browser redirected to a port of the loopback interface.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'

async function listen(name) {
  let answered
  const answer = new Promise((resolve) => (answered = resolve))
  const server = createServer((request, response) => {
    response.setHeader('Connection', 'close').end('You may close this page.')
    server.close()
    answered(new URL(request.url, 'http://localhost').searchParams)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const redirectUrl = `http://127.0.0.1:${server.address().port}/callback`
  const state = randomUUID()
  let client, tokens, verifier, discovered
  return {
    async response() {
      const params = await answer
      if (params.get('state') !== state) throw new Error('the state is another')
      if (params.has('error')) throw new Error(params.get('error'))
      return params
    },
    provider: {
      redirectUrl,
      clientMetadata: {
        client_name: name,
        redirect_uris: [redirectUrl],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        token_endpoint_auth_method: 'none',
      },
      state: () => state,
      clientInformation: () => client,
      saveClientInformation: (given) => void (client = given),
      tokens: () => tokens,
      saveTokens: (given) => void (tokens = given),
      discoveryState: () => discovered,
      saveDiscoveryState: (given) => void (discovered = given),
      codeVerifier: () => verifier,
      saveCodeVerifier: (given) => void (verifier = given),
      redirectToAuthorization: (url) => console.error(`log in at ${url}`),
    },
  }
}

// connected returns a client that is connected, with a header or by a login. open makes a client and
// its transport, finish passes on the parameters of the redirect.
export async function connected(options, open, Unauthorized, finish) {
  const application = options.login && (await listen(options.login))
  const settings = application ? { authProvider: application.provider } : { requestInit: { headers: options.headers } }
  let one = open(settings)
  try {
    await one.client.connect(one.transport)
  } catch (error) {
    if (!application || !(error instanceof Unauthorized)) throw error
    await finish(one.transport, await application.response())
    one = open(settings)
    await one.client.connect(one.transport)
  }
  return one
}
