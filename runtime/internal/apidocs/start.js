// Shows the OpenAPI document that is served beside this page. Requests cannot be sent
// from the page ("Try it out", "Authorize"): API keys do not belong in a browser.
const nothing = () => () => null

SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  supportedSubmitMethods: [],
  validatorUrl: 'none',
  plugins: [() => ({ wrapComponents: { authorizeBtn: nothing, authorizeOperationBtn: nothing } })],
})
